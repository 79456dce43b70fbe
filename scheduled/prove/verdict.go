package prove

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Verdict says whether one promise was kept.
type Verdict struct {
	Promise string  `json:"promise"`
	Held    bool    `json:"held"`
	Broken  int64   `json:"broken"` // how many times it was broken
	Found   []Count `json:"found"`  // the counts of the query; the last one is Broken
	SQL     string  `json:"sql"`    // the query, to run it again
}

// Count is a column of a verdict's query.
type Count struct {
	Name  string `json:"name"`
	Value int64  `json:"value"`
}

// String returns the counts in one line.
func (v Verdict) String() string {
	var words []string
	for _, c := range v.Found {
		words = append(words, fmt.Sprintf("%s %d", strings.ReplaceAll(c.Name, "_", " "), c.Value))
	}
	return strings.Join(words, ", ")
}

// promise is a promise and its check: a query without parameters that returns one row of counts. The last count is
// how many times the promise was broken.
type promise struct{ words, sql string }

// promises are the promises, in the words of the README. Their queries begin with proof.accepted, so that they notice
// a task that vanished from the engine's tables. Only the transactions that schedule tasks write to proof.accepted.
var promises = []promise{
	{"no accepted task is lost", lostSQL},
	{"a task never starts before its time", earlySQL},
	{"… after its expiry", expirySQL},
	{"… or after a committed cancel", cancelSQL},
	{"at most one settled completion per revision", twiceSQL},
	{"effects at least once", atLeastOnceSQL},
	{"… exactly once with HandleTx", exactlyOnceSQL},
	{"one id never runs twice at once", overlapSQL},
}

// lostSQL counts a task as lost unless it is COMPLETED, was cancelled by the proof, or expired by its own setting.
const lostSQL = `
SELECT count(*) AS accepted,
    count(*) FILTER (WHERE t.status = 'COMPLETED') AS completed,
    count(*) FILTER (WHERE t.status = 'CANCELLED' AND c.task_id IS NOT NULL) AS cancelled,
    count(*) FILTER (WHERE t.status = 'EXPIRED' AND a.expires_at IS NOT NULL) AS expired,
    count(*) FILTER (WHERE (t.status = 'COMPLETED' OR t.status = 'CANCELLED' AND c.task_id IS NOT NULL
        OR t.status = 'EXPIRED' AND a.expires_at IS NOT NULL) IS NOT TRUE) AS lost
FROM proof.accepted AS a
LEFT JOIN tasktable.scheduled_tasks AS t ON t.id = a.task_id
LEFT JOIN proof.cancelled AS c ON c.task_id = a.task_id`

const earlySQL = `
SELECT count(e.started_at) AS starts,
    count(*) FILTER (WHERE e.started_at < a.due_at OR e.started_at < e.due_at) AS early
FROM proof.accepted AS a JOIN tasktable.scheduled_task_executions AS e ON e.task_id = a.task_id`

const expirySQL = `
SELECT count(DISTINCT a.task_id) AS tasks_with_expiry,
    count(DISTINCT a.task_id) FILTER (WHERE e.outcome = 'EXPIRED') AS expired,
    count(*) FILTER (WHERE e.started_at >= a.expires_at) AS started_after
FROM proof.accepted AS a LEFT JOIN tasktable.scheduled_task_executions AS e ON e.task_id = a.task_id
WHERE a.expires_at IS NOT NULL`

const cancelSQL = `
SELECT count(DISTINCT c.task_id) AS cancelled,
    count(*) FILTER (WHERE e.started_at <= c.committed_at) AS while_running,
    count(*) FILTER (WHERE e.started_at > c.committed_at) AS started_after
FROM proof.cancelled AS c LEFT JOIN tasktable.scheduled_task_executions AS e ON e.task_id = c.task_id`

const twiceSQL = `
SELECT count(*) AS revisions, count(*) FILTER (WHERE n > 1) AS completed_twice
FROM (SELECT count(*) FILTER (WHERE outcome = 'COMPLETED') AS n
    FROM tasktable.scheduled_task_executions GROUP BY task_id, revision) AS r`

const atLeastOnceSQL = `
SELECT count(*) AS completed, coalesce(sum(n), 0)::bigint AS effects, count(*) FILTER (WHERE n = 0) AS without
FROM (SELECT count(x.task_id) AS n
    FROM proof.accepted AS a JOIN tasktable.scheduled_tasks AS t ON t.id = a.task_id
    LEFT JOIN proof.effects AS x ON x.task_id = a.task_id
    WHERE t.status = 'COMPLETED' AND NOT a.transactional GROUP BY a.task_id) AS r`

const exactlyOnceSQL = `
SELECT count(*) FILTER (WHERE completed) AS completed, coalesce(sum(n) FILTER (WHERE completed), 0)::bigint AS effects,
    count(*) FILTER (WHERE n > 1 OR completed AND n <> 1) AS not_once
FROM (SELECT coalesce(t.status = 'COMPLETED', false) AS completed, count(x.task_id) AS n
    FROM proof.accepted AS a LEFT JOIN tasktable.scheduled_tasks AS t ON t.id = a.task_id
    LEFT JOIN proof.effects AS x ON x.task_id = a.task_id
    WHERE a.transactional GROUP BY a.task_id, t.status) AS r`

// overlapSQL takes the end of the process as the end of a run that was cut off.
const overlapSQL = `
SELECT count(*) AS runs, count(*) FILTER (WHERE cut_off) AS cut_off,
    count(*) FILTER (WHERE began_at < before) AS overlapping
FROM (SELECT began_at, cut_off, max(over) OVER (PARTITION BY task_id ORDER BY began_at, number
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    FROM (SELECT r.task_id, r.number, r.began_at, r.ended_at IS NULL AS cut_off,
            coalesce(r.ended_at, k.gone_at, 'infinity') AS over
        FROM proof.runs AS r LEFT JOIN proof.kills AS k ON k.process = r.process) AS r) AS r`

// ask runs the promise's query.
func (p promise) ask(ctx context.Context, db querier) (v Verdict, err error) {
	v.Promise, v.SQL = p.words, strings.TrimSpace(p.sql)
	rows, err := db.Query(ctx, p.sql)
	if err != nil {
		return v, fmt.Errorf("verify %q: %w", p.words, err)
	}
	v.Found, err = pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) ([]Count, error) {
		counts := make([]Count, len(row.FieldDescriptions()))
		var into []any
		for i, field := range row.FieldDescriptions() {
			counts[i].Name = field.Name
			into = append(into, &counts[i].Value)
		}
		return counts, row.Scan(into...)
	})
	if err != nil {
		return v, fmt.Errorf("verify %q: %w", p.words, err)
	}
	v.Broken = v.Found[len(v.Found)-1].Value
	v.Held = v.Broken == 0
	return v, nil
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

var _ querier = (*pgxpool.Pool)(nil)
