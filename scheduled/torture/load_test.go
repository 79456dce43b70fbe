//go:build unix

package torture

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	auditRowsSQL = `
SELECT seq, at, began, txid AS tx_id, backend, a.app, leads, op, id, type, queue, parent, recurs,
    old_status, status, old_revision, revision, old_fence, fence, old_attempt, attempt, old_next, next, old_held, held,
    priority, first_due, asked, expires, max_attempts, expected, does, nonce, sum, entity, message, told, until,
    response, coalesce(bad, 0) AS bad, waits, again, if_dead
FROM torture.audit AS a LEFT JOIN torture.leaders AS l USING (txid) ORDER BY seq`
	linesSQL = `SELECT seq, at, txid AS tx_id, history, op, number, task_id, revision, hash FROM torture.lines
		ORDER BY seq`
	effectsSQL    = `SELECT task_id, fence, txid AS tx_id FROM torture.effects`
	opRowsSQL     = `SELECT op, task_id, verb, outcome, revision, txid AS tx_id FROM torture.ops`
	executionsSQL = `
SELECT fence, task_id, type, revision, attempt, scheduled_at, due_at, started_at, finished_at, outcome, error, node
FROM torture.executions AS e`
	keptSQL  = `SELECT fence, md5(e::text) AS hash FROM tasktable.scheduled_task_executions AS e`
	nodesSQL = `SELECT number, split_part(host, '/', 2)::int AS pid FROM tasktable.nodes`
	tasksSQL = `SELECT id::text, status::text, revision, fence FROM tasktable.scheduled_tasks
		WHERE type <> 'NOTICE'`
	changesSQL = `SELECT revision FROM tasktable.scheduled_task_changes WHERE NOT starts_with(task_id, 'notice/')`
	causesSQL  = `
SELECT c.number AS fence, c.task_id, c.event,
    EXISTS (SELECT FROM tasktable.scheduled_tasks AS t WHERE t.id = c.notice_id) AS scheduled
FROM tasktable.notice_causes AS c`
)

// collect reads all rows of a statement.
func collect[T any](
	ctx context.Context, pool *pgxpool.Pool, into *[]T, to pgx.RowToFunc[T], statement string, args ...any,
) error {
	rows, _ := pool.Query(ctx, statement, args...) // CollectRows returns its error
	var err error
	if *into, err = pgx.CollectRows(rows, to); err != nil {
		return fmt.Errorf("read the evidence: %w", err)
	}
	return nil
}

// load reads what the database has of the evidence.
func (h *history) load(ctx context.Context, pool *pgxpool.Pool) error {
	for _, read := range []func() error{
		func() error { return collect(ctx, pool, &h.Audit, pgx.RowToAddrOfStructByName[auditRow], auditRowsSQL) },
		func() error { return collect(ctx, pool, &h.Lines, pgx.RowToStructByName[line], linesSQL) },
		func() error { return collect(ctx, pool, &h.Effects, pgx.RowToStructByName[effect], effectsSQL) },
		func() error { return collect(ctx, pool, &h.Ops, pgx.RowToAddrOfStructByName[opRow], opRowsSQL) },
		func() error {
			return collect(ctx, pool, &h.Executions, pgx.RowToAddrOfStructByName[execution], executionsSQL)
		},
		func() error { return collect(ctx, pool, &h.Kept, pgx.RowToStructByName[kept], keptSQL) },
		func() error { return collect(ctx, pool, &h.Nodes, pgx.RowToStructByName[nodeRow], nodesSQL) },
		func() error { return collect(ctx, pool, &h.Tasks, pgx.RowToStructByName[taskRow], tasksSQL) },
		func() error { return collect(ctx, pool, &h.Causes, pgx.RowToStructByName[cause], causesSQL) },
		func() error { return collect(ctx, pool, &h.Changes, pgx.RowTo[int64], changesSQL) },
	} {
		if err := read(); err != nil {
			return err
		}
	}
	return nil
}

// readProcesses reads the journals of processes.
func (h *history) readProcesses(processes []*process) error {
	for _, p := range processes {
		from, until := p.life()
		one := life{PID: p.pid, Slot: p.slot, From: from, Until: until, Journal: p.journal}
		h.Processes = append(h.Processes, one)
		marks, err := readJournal(p.journal)
		if err != nil {
			return err
		}
		h.addJournal(one, marks)
	}
	return nil
}

// addJournal makes runs of the marks of a process.
func (h *history) addJournal(of life, marks []mark) {
	open := map[int64]*run{} // by fence
	for _, m := range marks {
		switch m.Kind {
		case markStart:
			latest := of.Until
			if latest.IsZero() {
				latest = time.Now()
			}
			open[m.Fence] = &run{mark: m, PID: of.PID, Latest: latest}
			h.Runs = append(h.Runs, open[m.Fence])
		case markEnd:
			if r := open[m.Fence]; r != nil {
				r.End, r.Latest = &m, m.At
				delete(open, m.Fence)
			}
		case markAsks:
			if r := open[m.Fence]; r != nil {
				r.Asks = append(r.Asks, m)
			}
		case markDead:
			h.Dead = append(h.Dead, m)
		case markStall:
			h.Stalls = append(h.Stalls, span{of.PID, m.At, m.Until})
		case markQuiet, markOn:
			h.addQuiet(of, m)
		}
	}
	h.endQuiet(of)
}
