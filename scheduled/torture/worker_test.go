//go:build unix

package torture

import (
	"context"
	"crypto/md5"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/webhook"
	"github.com/tasktable/tasktable/store"
)

// worker is the handlers of a node's process.
type worker struct {
	journal  *journal
	pool     *pgxpool.Pool // the one that handlers share with the engine's transactions
	requests *webhook.Sender
}

// parts are the variants of the given types.
func (w *worker) parts(types []string) []handlers.Part {
	all := map[string]handlers.Part{
		plain{}.TaskType(): doing[plain](w),
		herd{}.TaskType():  doing[herd](w),
		rare{}.TaskType():  doing[rare](w),
		tick{}.TaskType():  doing[tick](w),
		other{}.TaskType(): doing[other](w),
		hookType:           handlers.Handle(w.requests.Send),
		inTx{}.TaskType():  handlers.HandleTx(w.inTx),
		inSQL{}.TaskType(): handlers.HandleSQLTx(w.inSQL),
	}
	parts := []handlers.Part{handlers.Use(w.record)}
	for name, part := range all {
		if slices.Contains(types, name) {
			parts = append(parts, part)
		}
	}
	return parts
}

// doing is an ordinary handler of a payload's type.
func doing[P interface {
	store.Payload
	asked() chore
}](w *worker) handlers.Part {
	return handlers.Handle(func(ctx context.Context, t *handlers.Task[P]) error {
		return w.do(ctx, t.Execution, t.Payload.asked())
	})
}

// record writes a handler's start and end to the journal. It is the outermost middleware.
func (w *worker) record(next handlers.Handler) handlers.Handler {
	return func(ctx context.Context, e *handlers.Execution) (err error) {
		w.journal.write(mark{
			Kind: markStart, At: wallNow(), ID: e.ID, Type: e.Type, Group: e.Group, Fence: e.Fence, Revision: e.Revision,
			Attempt: e.Attempt, Gate: e.StartedAt, Due: e.DueAt, Sum: sum(e.Payload),
			Deaf: strings.Contains(string(e.Payload), `"`+doDeaf+`"`),
		})
		var ended atomic.Int64
		stop := context.AfterFunc(ctx, func() { ended.Store(wallNow().UnixNano()) })
		how := "goexit" // unless it is another
		defer func() {
			stop()
			m := mark{Kind: markEnd, At: wallNow(), Fence: e.Fence, How: how}
			value := recover()
			if value != nil {
				m.How = "panic"
			}
			if cause := context.Cause(ctx); ctx.Err() != nil && cause != nil {
				m.Cause = cause.Error()
			}
			if at := ended.Load(); at != 0 {
				m.Ended = time.Unix(0, at)
			}
			w.journal.write(m)
			if value != nil {
				panic(value)
			}
		}()
		err = next(ctx, e)
		if e.Type == hookType {
			w.noteHook(e, err)
		}
		how = "ok"
		if err != nil {
			how = "error"
		}
		return err
	}
}

// sum is a payload's, as the database's md5 makes it.
func sum(payload []byte) string { return fmt.Sprintf("%x", md5.Sum(payload)) }

// asks writes to the journal what a handler asks of the engine, before it does.
func (w *worker) asks(e *handlers.Execution, m mark) {
	m.Kind, m.At, m.Fence = markAsks, wallNow(), e.Fence
	w.journal.write(m)
}

// failing is an error that the journal has, with the time that the next attempt is to wait.
func (w *worker) failing(e *handlers.Execution, wait time.Duration, text string) error {
	w.asks(e, mark{Wait: wait, Error: text})
	return errors.New(text)
}

const effectSQL = `INSERT INTO torture.effects (task_id, revision, fence, attempt, pid) VALUES ($1, $2, $3, $4, $5)`

func (w *worker) inTx(ctx context.Context, tx pgx.Tx, t *handlers.Task[inTx]) error {
	if _, err := tx.Exec(ctx, effectSQL, t.ID, t.Revision, t.Fence, t.Attempt, os.Getpid()); err != nil {
		return err
	}
	return w.do(ctx, t.Execution, t.Payload.chore)
}

func (w *worker) inSQL(ctx context.Context, tx *sql.Tx, t *handlers.Task[inSQL]) error {
	if _, err := tx.ExecContext(ctx, effectSQL, t.ID, t.Revision, t.Fence, t.Attempt, os.Getpid()); err != nil {
		return err
	}
	return w.do(ctx, t.Execution, t.Payload.chore)
}

// poison is what neither Postgres's text nor its jsonb takes, and much of it.
var poison = "a\x00b\xff\xfe" + strings.Repeat("é\x00", 20000)

// do does what the payload asks for.
func (w *worker) do(ctx context.Context, e *handlers.Execution, c chore) error {
	if c.Do == doDeaf {
		<-time.After(time.Duration(c.Millis) * time.Millisecond)
		return nil
	}
	if err := wait(ctx, time.Duration(c.Millis)*time.Millisecond); err != nil {
		return err
	}
	if e.Attempt <= c.Times {
		if err := w.goWrong(ctx, e, c); err != nil {
			return err
		}
	}
	switch c.Do {
	case doTell:
		note := fmt.Sprintf("done by fence %d", e.Fence)
		w.asks(e, mark{Note: note})
		e.Note("%s", note)
		e.Result(map[string]string{"told": note})
	case doPermanent:
		w.ifDead(e)
		return handlers.Permanent(w.failing(e, 0, "never mind"))
	case doPoison:
		e.Note("%s", poison)
		e.Result(map[string]string{"text\x00": poison})
	case doSnooze:
		if wallNow().UnixMilli() < c.Until {
			w.asks(e, mark{Wait: snoozeFor})
			return handlers.Snooze(snoozeFor)
		}
	case doAgain:
		if now := wallNow(); now.UnixMilli() < c.Until {
			at := now.Add(250 * time.Millisecond)
			w.asks(e, mark{Again: at})
			e.Again(at)
		}
	case doFollow:
		return w.follow(ctx, e, c)
	case doHog:
		return w.hog(ctx)
	case doExtend:
		return w.extend(ctx, e, c.Times)
	}
	return nil
}

// extend asks some times for a longer lease, and works each time for longer than the one before would have lasted.
func (w *worker) extend(ctx context.Context, e *handlers.Execution, times int) error {
	if err := wait(ctx, time.Second); err != nil {
		return err
	}
	for range times {
		called := wallNow()
		if err := e.Extend(ctx, leaseTime); err != nil {
			return err
		}
		w.asks(e, mark{Longer: leaseTime, Called: called})
		if err := wait(ctx, leaseTime-leaseTime/8); err != nil {
			return err
		}
	}
	return nil
}

// goWrong fails in the way that is asked for.
func (w *worker) goWrong(ctx context.Context, e *handlers.Execution, c chore) error {
	switch c.Do {
	case doFail:
		w.ifDead(e)
		return w.failing(e, retryDelay, "oops")
	case doAfter:
		return handlers.RetryAfter(afterDelay, w.failing(e, afterDelay, "later"))
	case doPanic:
		panic("oops")
	case doGoexit:
		runtime.Goexit()
	case doOverrun:
		<-ctx.Done()
		return context.Cause(ctx)
	case doPoison:
		return errors.New(poison)
	}
	return nil
}

// hog keeps all connections of the pool for a while, or as many as can be had at once.
func (w *worker) hog(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	for range handlerConns {
		conn, err := w.pool.Acquire(asking)
		if err != nil {
			break
		}
		defer conn.Release()
	}
	return wait(ctx, time.Second)
}

// wait works for so long, minding the context.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
}
