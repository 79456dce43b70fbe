package store

import (
	"context"
	"fmt"
	"strconv"
	"time"
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
	// Archived selects those that are archived, and no others.
	Archived bool
	// FinishedFrom and FinishedTo bound when the task ended: FinishedFrom <= finished_at < FinishedTo.
	FinishedFrom, FinishedTo time.Time
	// LatestFirst turns the order round, also where a limit says how many are retried or archived.
	LatestFirst bool
	// After continues a list: the last task of the page before, read with the same filter. It may be retried or gone by now.
	After *Row
	// Limit bounds what is listed, retried or archived; 1 to 10000, 0: 100.
	Limit int
}

// args are the filter as the statements take it: first what deadWhere does, then what pickDead does.
func (f DeadFilter) args() ([]any, error) {
	if f.Limit == 0 {
		f.Limit = 100
	}
	if f.Limit < 1 || f.Limit > 10000 {
		return nil, invalid("limit", "must be between 1 and 10000", f.Limit)
	}
	where, err := f.whereArgs()
	if err != nil {
		return nil, err
	}
	id, ended := "", ""
	if f.After != nil {
		if f.After.FinishedAt == nil {
			return nil, invalid("after", "must be a task that has ended", f.After.ID)
		}
		if ended, err = timeText("after", *f.After.FinishedAt); err != nil {
			return nil, err
		}
		id = f.After.ID
	}
	return append(where, ended, id, strconv.FormatBool(f.LatestFirst), strconv.Itoa(f.Limit)), checkText("after", id)
}

func (f DeadFilter) whereArgs() ([]any, error) {
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
	var bounds [2]string
	for i, bound := range []struct {
		name  string
		value time.Time
	}{{"finished from", f.FinishedFrom}, {"finished to", f.FinishedTo}} {
		var err error
		if bound.value.IsZero() {
			continue
		}
		if bounds[i], err = timeText(bound.name, bound.value); err != nil {
			return nil, err
		}
	}
	return []any{f.Type, f.Queue, f.Entity, f.TenantID, f.Message, string(f.Status), strconv.FormatBool(f.Archived), bounds[0], bounds[1]}, nil
}

const deadWhere = `
WHERE t.status IN ('FAILED', 'EXPIRED') AND (t.archived_at IS NOT NULL) = $7::text::boolean
    AND ($1::text = '' OR t.type = $1::text) AND ($2::text = '' OR t.queue = $2::text)
    AND ($3::text = '' OR t.entity = $3::text) AND ($4::text = '' OR t.tenant_id = $4::text)
    AND ($5::text = '' OR position($5::text IN t.message) > 0) AND ($6::text = '' OR t.status = $6::text)
    AND ($8::text = '' OR t.finished_at >= $8::text::timestamptz) AND ($9::text = '' OR t.finished_at < $9::text::timestamptz)`

const pickDead = deadWhere + `
    AND ($10::text = '' OR CASE WHEN $12::text::boolean THEN (t.finished_at, t.id::text COLLATE "C") < ($10::text::timestamptz, $11::text)
        ELSE (t.finished_at, t.id::text COLLATE "C") > ($10::text::timestamptz, $11::text) END)
ORDER BY CASE WHEN $12::text::boolean THEN t.finished_at END DESC, CASE WHEN $12::text::boolean THEN t.id::text COLLATE "C" END DESC,
    t.finished_at, t.id::text COLLATE "C"
LIMIT $13::text::int`

const deadLettersSQL = `SELECT ` + rowColumns + `
FROM tasktable.scheduled_tasks AS t` + pickDead

// DeadLetters lists tasks that will not run unless somebody does something, the oldest first. It reads the table through.
func (s *Store) DeadLetters(ctx context.Context, db DB, filter DeadFilter) ([]Row, error) {
	args, err := filter.args()
	if err != nil {
		return nil, fmt.Errorf("list dead letters: %w", err)
	}
	return collect[Row](ctx, s, db, "list dead letters", deadLettersSQL, args...)
}

// Those of the filter are locked in the order of their ids, as by every bulk call: so they do not deadlock.
const pickedDead = `
SELECT done.id, done.revision, done.outcome FROM (
    SELECT picked.id FROM (
        SELECT t.id::text AS id FROM tasktable.scheduled_tasks AS t` + pickDead + `
    ) AS picked ORDER BY picked.id COLLATE "C" OFFSET 0
) AS dead`

const retryDeadSQL = pickedDead + ` CROSS JOIN LATERAL tasktable.retry(dead.id, $14::text, $15::text::boolean) AS done`

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

const archiveDeadSQL = pickedDead + ` CROSS JOIN LATERAL tasktable.archive(dead.id, $14::text, $15::text) AS done`

// ArchiveDead is Archive for all dead letters that the filter selects, the oldest up to its limit, in one statement. The receipts
// are in the order of the ids.
func (s *Store) ArchiveDead(ctx context.Context, db DB, filter DeadFilter, note string) ([]Receipt, error) {
	args, err := filter.args()
	if err == nil {
		err = checkNote("note", note)
	}
	if err != nil {
		return nil, fmt.Errorf("archive dead letters: %w", err)
	}
	rows, err := s.call(ctx, db, "archive dead letters", archiveDeadSQL, append(args, orNil(note), s.author())...)
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
	Type   string `json:"type"`
	Status Status `json:"status"`
	Count  int    `json:"count"`
}

const deadCountsSQL = `
SELECT type, status, count(*)::int AS count FROM tasktable.scheduled_tasks
WHERE status IN ('FAILED', 'EXPIRED') AND archived_at IS NULL GROUP BY type, status ORDER BY type, status`

// DeadCounts counts the dead letters by type and status. It reads the table through.
func (s *Store) DeadCounts(ctx context.Context, db DB) ([]DeadCount, error) {
	return collect[DeadCount](ctx, s, db, "count dead letters", deadCountsSQL)
}

// DeadTotal is how many dead letters a filter selected at a time.
type DeadTotal struct {
	Count int       `json:"count"`
	At    time.Time `json:"at"`
}

const countDeadSQL = `SELECT count(*) AS count, statement_timestamp() AS at FROM tasktable.scheduled_tasks AS t` + deadWhere

// CountDead counts the dead letters that the filter selects, whatever its limit. With what it returns as At for the filter's FinishedTo, a
// RetryDead that follows is done with all of them at some time: those that fail once more are not retried again. It reads the table through.
func (s *Store) CountDead(ctx context.Context, db DB, filter DeadFilter) (DeadTotal, error) {
	args, err := filter.whereArgs()
	if err != nil {
		return DeadTotal{}, fmt.Errorf("count dead letters: %w", err)
	}
	rows, err := collect[DeadTotal](ctx, s, db, "count dead letters", countDeadSQL, args...)
	if err != nil {
		return DeadTotal{}, err
	}
	return rows[0], nil
}
