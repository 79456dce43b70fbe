package api

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/store"
)

const (
	endedPause = 200 * time.Millisecond // between two questions whether tasks have ended that calls wait for
	askPause   = time.Second            // between two looks whether the caller's key still holds
)

// getTask reads a task. If the call waits, it reads the task again when the status is final or the time is over. A call
// holds no connection in between.
func (a *API) getTask(ctx context.Context, in *taskInput) (*taskAnswer, error) {
	wait, err := waitOf(in.Wait)
	if err != nil {
		return nil, err
	}
	row, err := a.look(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if wait > 0 && row.FinishedAt == nil {
		if row, err = a.wait(ctx, in.ID, wait); err != nil {
			return nil, err
		}
	}
	answer := &taskAnswer{ETag: etag(row.Revision), Body: taskOf(row)}
	if in.Include != "" {
		answer.Body.Executions, err = a.latestExecutions(ctx, in.ID)
	}
	return answer, err
}

// included is how many attempts a task has in its answer.
const included = 20

// latestExecutions reads the latest attempts of a task. They may be newer than the task that was read before.
func (a *API) latestExecutions(ctx context.Context, id string) ([]store.Execution, error) {
	found, err := readOnly(ctx, a, func(ctx context.Context, c call) (*[]store.Execution, error) {
		executions, _, err := fitting(included, func(limit int) ([]store.Execution, error) {
			return c.tasks.Executions(ctx, bounded{c.db, answerBytes}, id, "", limit)
		})
		return new(pg.OrEmpty(executions)), err
	})
	return deref(found), err
}

func waitOf(given string) (wait time.Duration, err error) {
	if given == "" {
		return 0, nil
	}
	if wait, err = time.ParseDuration(given); err != nil {
		wait, err = time.ParseDuration(given + "s") // a number of seconds, as all durations here
	}
	if err != nil || wait < 0 || wait > MaxWait {
		return 0, invalid("wait must be from 0s to 1m, such as 30s")
	}
	return wait, nil
}

// wait waits for the end of a task, and returns the task. A task that is deleted meanwhile has ended, too.
func (a *API) wait(ctx context.Context, id string, most time.Duration) (row store.Row, err error) {
	defer a.ended.follow(id)()
	over, again, ask := time.NewTimer(most), time.NewTicker(endedPause/2), time.NewTicker(askPause)
	defer over.Stop()
	defer again.Stop()
	defer ask.Stop()
	for {
		select {
		case <-ctx.Done():
			return row, context.Cause(ctx)
		case <-over.C:
			return a.look(ctx, id)
		case <-ask.C:
			if err := a.askAgain(ctx); err != nil {
				return row, err
			}
		case <-again.C:
			ended, err := a.ended.has(ctx, a.config.Pool, a.config.Timeout, id)
			if err != nil {
				return row, err
			}
			if !ended {
				continue
			}
			if row, err = a.look(ctx, id); err != nil || row.FinishedAt != nil {
				return row, err
			}
		}
	}
}

// look reads a task in a transaction of its own, so that no transaction is open while the call waits.
func (a *API) look(ctx context.Context, id string) (store.Row, error) {
	row, err := readOnly(ctx, a, func(ctx context.Context, c call) (*store.Row, error) {
		row, err := c.tasks.Get(ctx, c.db, id)
		return &row, err
	})
	return deref(row), err
}

// ended knows which tasks have ended that calls wait for. However many calls there are, it asks the database once in
// endedPause.
type ended struct {
	schema store.Schema

	mu      sync.Mutex
	waiting map[string]int // how many calls wait for each task

	open shared[[]string] // of these tasks
}

func newEnded(schema store.Schema) *ended { return &ended{schema: schema, waiting: map[string]int{}} }

// follow adds a call that waits for a task. The caller must call leave.
func (e *ended) follow(id string) (leave func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiting[id]++
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.waiting[id]--; e.waiting[id] == 0 {
			delete(e.waiting, id)
		}
	}
}

// openSQL binds the ids as one text, in which they are lines. No id has a line feed.
const openSQL = `
SELECT t.id::text FROM tasktable.scheduled_tasks AS t
WHERE t.id = ANY (string_to_array($1::text, chr(10))) AND t.finished_at IS NULL`

// has reports whether a task that the caller follows has ended, or does not exist. The answer may be endedPause old. It
// is also true for a call that has just begun to wait. So the caller looks at the task itself.
func (e *ended) has(ctx context.Context, pool *pgxpool.Pool, within time.Duration, id string) (bool, error) {
	open, err := e.open.get(ctx, "", endedPause, func(ctx context.Context) ([]string, error) {
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		return pg.CollectColumn[string](ctx, pool, "ask which tasks have ended", e.schema.SQL(openSQL), e.ids())
	})
	return !slices.Contains(open, id), err
}

// ids are those of the tasks that calls wait for.
func (e *ended) ids() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(slices.Collect(maps.Keys(e.waiting)), "\n")
}
