package store

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const nowSQL = `SELECT clock_timestamp()`

// Now is the database's time, by which all tasks go.
func (s *Store) Now(ctx context.Context, db DB) (time.Time, error) {
	return scalar[time.Time](ctx, s, db, "read the time", nowSQL)
}

// Name is by what a person knows a task.
type Name struct {
	ID     string
	Type   string
	Status Status
}

const namesSQL = `
SELECT id, type, status FROM tasktable.scheduled_tasks
WHERE id >= $1::text AND ($2::text = '' OR id < $2::text)
    AND ($3::text = '' OR status = ANY (string_to_array($3::text, ',')))
ORDER BY id LIMIT $4::text::int`

// Names lists the ids that begin with a prefix, in their order, of tasks in one of the statuses (none given: in any): what a
// shell or a form offers while somebody types. Most is 1 to 10000.
func (s *Store) Names(ctx context.Context, db DB, prefix string, statuses []Status, most int) ([]Name, error) {
	if err := checkText("prefix", prefix); err != nil {
		return nil, fmt.Errorf("list names: %w", err)
	}
	if most < 1 || most > 10000 {
		return nil, fmt.Errorf("list names: %w", invalid("most", "must be between 1 and 10000", most))
	}
	among, err := statusList(statuses)
	if err != nil {
		return nil, fmt.Errorf("list names: %w", err)
	}
	return collect[Name](ctx, s, db, "list names", namesSQL, prefix, behind(prefix), among, strconv.Itoa(most))
}

// statusList binds statuses as one text.
func statusList(statuses []Status) (string, error) {
	words := make([]string, len(statuses))
	for i, status := range statuses {
		words[i] = string(status)
		if err := checkStatus(status); err != nil {
			return "", err
		}
	}
	return strings.Join(words, ","), nil
}

func checkStatus(status Status) error {
	for _, known := range Statuses() {
		if status == known {
			return nil
		}
	}
	return invalid("status", "must be one of the eight words", fmt.Sprintf("%q", string(status)))
}

// behind is the first text behind all those that begin with the prefix, in the order of their bytes; "": there is none. An index
// serves a range, but no LIKE whose pattern it learns too late.
func behind(prefix string) string {
	for prefix != "" {
		last, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		if last == utf8.MaxRune {
			continue
		}
		if last++; !utf8.ValidRune(last) { // the surrogates
			last = 0xe000
		}
		return prefix + string(last)
	}
	return ""
}

// A loose index scan: one probe of the index for each lane, however many tasks wait in it. Recurring tasks have an index of their own.
const lanesSQL = `
WITH RECURSIVE lane AS (
    (SELECT t.queue::text AS queue, t.type::text AS type FROM tasktable.scheduled_tasks AS t
    WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NULL ORDER BY t.queue, t.type LIMIT 1)
    UNION ALL
    SELECT beyond.queue, beyond.type FROM lane CROSS JOIN LATERAL (
        SELECT t.queue::text AS queue, t.type::text AS type FROM tasktable.scheduled_tasks AS t
        WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NULL AND (t.queue, t.type) > (lane.queue, lane.type)
        ORDER BY t.queue, t.type LIMIT 1) AS beyond
), recurring AS (
    SELECT DISTINCT t.queue::text AS queue, t.type::text AS type FROM tasktable.scheduled_tasks AS t
    WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NOT NULL
)`

const typesSQL = lanesSQL + `
SELECT type COLLATE "C" AS type FROM lane UNION SELECT type COLLATE "C" FROM recurring
UNION SELECT unnest(n.types) COLLATE "C" FROM tasktable.nodes AS n WHERE n.dead_at IS NULL ORDER BY type`

// Types lists the types in use: those that live nodes have handlers for, and those of tasks that wait. It reads no finished tasks.
func (s *Store) Types(ctx context.Context, db DB) ([]string, error) {
	return s.words(ctx, db, "list types", typesSQL)
}

const queuesSQL = lanesSQL + `
SELECT queue COLLATE "C" AS queue FROM lane UNION SELECT queue COLLATE "C" FROM recurring
UNION SELECT jsonb_object_keys(n.queues) COLLATE "C" FROM tasktable.nodes AS n WHERE n.dead_at IS NULL ORDER BY queue`

// Queues lists the queues in use, as Types does the types.
func (s *Store) Queues(ctx context.Context, db DB) ([]string, error) {
	return s.words(ctx, db, "list queues", queuesSQL)
}
