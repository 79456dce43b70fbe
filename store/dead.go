package store

import (
	"context"
	"fmt"
	"strconv"
)

// DeadFilter selects dead letters: tasks that FAILED or EXPIRED and are not archived. A zero field selects all.
type DeadFilter struct {
	Type     string
	Queue    string
	Entity   string
	TenantID string
	// Message is text that the last error contains.
	Message string
	// Status is StatusFailed or StatusExpired; "": both.
	Status Status
	// Limit bounds what is listed or retried, the oldest first; 1 to 10000, 0: 100.
	Limit int
}

func (f DeadFilter) args() ([]any, error) {
	if f.Limit == 0 {
		f.Limit = 100
	}
	if f.Limit < 1 || f.Limit > 10000 {
		return nil, invalid("limit", "must be between 1 and 10000", f.Limit)
	}
	if f.Status != "" && f.Status != StatusFailed && f.Status != StatusExpired {
		return nil, invalid("status", "must be FAILED or EXPIRED", fmt.Sprintf("%q", f.Status))
	}
	for _, field := range []struct{ name, value string }{
		{"type", f.Type}, {"queue", f.Queue}, {"entity", f.Entity}, {"tenant_id", f.TenantID},
	} {
		if err := checkText(field.name, field.value); err != nil {
			return nil, err
		}
	}
	if err := checkNote("message", f.Message); err != nil {
		return nil, err
	}
	return []any{f.Type, f.Queue, f.Entity, f.TenantID, f.Message, string(f.Status), strconv.Itoa(f.Limit)}, nil
}

const deadLettersSQL = `SELECT ` + rowColumns + `
FROM tasktable.scheduled_tasks AS t
WHERE t.status IN ('FAILED', 'EXPIRED') AND t.archived_at IS NULL
    AND ($1::text = '' OR t.type = $1::text) AND ($2::text = '' OR t.queue = $2::text)
    AND ($3::text = '' OR t.entity = $3::text) AND ($4::text = '' OR t.tenant_id = $4::text)
    AND ($5::text = '' OR position($5::text IN t.message) > 0) AND ($6::text = '' OR t.status = $6::text)
ORDER BY t.finished_at, t.id::text COLLATE "C" LIMIT $7::text::int`

// DeadLetters lists tasks that will not run unless somebody does something, the oldest first.
func (s *Store) DeadLetters(ctx context.Context, db DB, filter DeadFilter) ([]Row, error) {
	args, err := filter.args()
	if err != nil {
		return nil, fmt.Errorf("list dead letters: %w", err)
	}
	return collect[Row](ctx, s, db, "list dead letters", deadLettersSQL, args...)
}

// The oldest are chosen, and locked in the order of their ids, as by every bulk call: so they do not deadlock.
const retryDeadSQL = `
SELECT done.id, done.revision, done.outcome FROM (
    SELECT oldest.id FROM (
        SELECT t.id::text AS id FROM tasktable.scheduled_tasks AS t
        WHERE t.status IN ('FAILED', 'EXPIRED') AND t.archived_at IS NULL
            AND ($1::text = '' OR t.type = $1::text) AND ($2::text = '' OR t.queue = $2::text)
            AND ($3::text = '' OR t.entity = $3::text) AND ($4::text = '' OR t.tenant_id = $4::text)
            AND ($5::text = '' OR position($5::text IN t.message) > 0) AND ($6::text = '' OR t.status = $6::text)
        ORDER BY t.finished_at, t.id::text COLLATE "C" LIMIT $7::text::int
    ) AS oldest ORDER BY oldest.id COLLATE "C" OFFSET 0
) AS dead CROSS JOIN LATERAL tasktable.retry(dead.id, $8::text, $9::text::boolean) AS done`

// RetryDead is Retry for all dead letters that the filter selects, the oldest up to its limit, in one statement. The receipts
// are in the order of the ids.
func (s *Store) RetryDead(ctx context.Context, db DB, filter DeadFilter) ([]Receipt, error) {
	args, err := filter.args()
	if err != nil {
		return nil, fmt.Errorf("retry dead letters: %w", err)
	}
	rows, err := s.call(ctx, db, "retry dead letters", retryDeadSQL, append(args, s.author(), s.wake(true))...)
	return receipts(rows), err
}

const archiveSQL = `SELECT id, revision, outcome FROM tasktable.archive($1::text, $2::text, $3::text)`

// Archive marks a dead letter as dealt with, with a note: Archived, Unchanged (it is no dead letter) or Absent. It is not
// listed any more; its row and history stay until retention takes them.
func (s *Store) Archive(ctx context.Context, db DB, id, note string) (Receipt, error) {
	if err := checkNote("note", note); err != nil {
		return Receipt{}, fmt.Errorf("archive: %w", err)
	}
	return s.verb(ctx, db, "archive", archiveSQL, id, orNil(note), s.author())
}

// DeadCount is how many dead letters a type has.
type DeadCount struct {
	Type   string
	Status Status
	Count  int
}

const deadCountsSQL = `
SELECT type, status, count(*)::int AS count FROM tasktable.scheduled_tasks
WHERE status IN ('FAILED', 'EXPIRED') AND archived_at IS NULL GROUP BY type, status ORDER BY type, status`

// DeadCounts counts the dead letters by type and status.
func (s *Store) DeadCounts(ctx context.Context, db DB) ([]DeadCount, error) {
	return collect[DeadCount](ctx, s, db, "count dead letters", deadCountsSQL)
}

// Erasure is what Erase removed.
type Erasure struct {
	Tasks      int64
	Executions int64
	Changes    int64
	Running    int64 // tasks that were cancelled but still run: erase again when they have ended
}

const eraseSQL = `SELECT tasks, executions, changes, running FROM tasktable.erase($1::text, $2::text)`

// EraseEntity removes all tasks of an entity with their history, also that of tasks that were deleted, or became another's,
// before. Running ones are cancelled and left: erase again when they have ended.
func (s *Store) EraseEntity(ctx context.Context, db DB, entity string) (Erasure, error) {
	return s.erase(ctx, db, "entity", entity, &entity, nil)
}

// EraseTenant is EraseEntity for all tasks of a tenant.
func (s *Store) EraseTenant(ctx context.Context, db DB, tenantID string) (Erasure, error) {
	return s.erase(ctx, db, "tenant_id", tenantID, nil, &tenantID)
}

func (s *Store) erase(ctx context.Context, db DB, field, value string, entity, tenantID *string) (Erasure, error) {
	if err := checkText(field, value); err != nil {
		return Erasure{}, fmt.Errorf("erase: %w", err)
	}
	if value == "" {
		return Erasure{}, fmt.Errorf("erase: %w", invalid(field, "must be given", "an empty one"))
	}
	rows, err := collect[Erasure](ctx, s, db, "erase "+field+" "+value, eraseSQL, entity, tenantID)
	if err != nil {
		return Erasure{}, err
	}
	return rows[0], nil
}
