package doctor

import "context"

const refusedSQL = `
SELECT coalesce((
    SELECT n.retention_refused FROM tasktable.nodes AS n
    WHERE n.dead_at IS NULL AND n.retention_refused IS NOT NULL ORDER BY n.elected_at DESC NULLS LAST
        LIMIT 1), '')`

// retention reports rows that the leader could not remove. Their number grows as long as other rows refer to them.
func (e *examination) retention(ctx context.Context) error {
	refused, err := value[string](ctx, e, refusedSQL)
	if err != nil {
		return err
	}
	if refused == "" {
		e.ok("what is too old is removed")
		return nil
	}
	e.find(Warning, "give the application's foreign keys to Tasktable's tables ON DELETE CASCADE or SET NULL, and let "+
		"its triggers on them pass deletes of finished tasks", "retention could not remove %s", refused)
	return nil
}
