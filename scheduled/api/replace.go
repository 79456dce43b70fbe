package api

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Replacing is for calls that may edit a task by its whole content.
type Replacing struct {
	Replace bool `query:"replace" doc:"Also if it makes a recurring task a plain one, or the other way."`
}

// namedTask is a task of a call, as far as its kind goes.
type namedTask struct {
	ID     string `json:"id"`
	Recurs bool   `json:"recurs"`
}

// otherKindSQL finds a task that recurs and would not recur any more, or the other way. It reads the tasks one by one,
// because Postgres would join them with the whole table.
const otherKindSQL = `
SELECT t.id, t.recurs
FROM jsonb_to_recordset($1::text::jsonb) AS given (id text, recurs boolean)
CROSS JOIN LATERAL (
    SELECT t.id::text AS id, t.cron IS NOT NULL AS recurs FROM tasktable.scheduled_tasks AS t
    WHERE t.id = given.id LIMIT 1
) AS t
WHERE t.recurs <> given.recurs
ORDER BY t.id LIMIT 1`

// keepsKind refuses to make a recurring task a plain one, or the other way, unless the call says that it replaces the
// task. A body that only forgets cron would otherwise end a nightly job without a word, and run it at once.
func (c call) keepsKind(ctx context.Context, given Replacing, tasks ...namedTask) error {
	if given.Replace || len(tasks) == 0 {
		return nil
	}
	asked, err := json.Marshal(tasks)
	if err != nil {
		return fmt.Errorf("encode the ids: %w", err)
	}
	rows, err := c.db.Query(ctx, c.schema.SQL(otherKindSQL), string(asked))
	if err != nil {
		return fmt.Errorf("look whether tasks recur: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[namedTask])
	switch {
	case err != nil:
		return fmt.Errorf("look whether tasks recur: %w", err)
	case len(found) == 0:
		return nil
	case found[0].Recurs:
		return refusal(CodeKindDiffers, fmt.Sprintf("task %q recurs, and the call has no cron, so that it would "+
			"not recur any more; change some of its fields by PATCH, or add ?replace=true", found[0].ID))
	}
	return refusal(CodeKindDiffers, fmt.Sprintf("task %q does not recur, and the call has cron; add cron to it by "+
		"PATCH, or add ?replace=true", found[0].ID))
}
