package inspect_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
	"github.com/tasktable/tasktable/store/internal/testbench"
)

// Each verb comes to the same as for one task, in the order of the ids, and only for what is both among the
// ids and selected.
func TestApplyIsEachVerbOnWhatTheFilterSelects(t *testing.T) {
	t.Parallel()
	ids := []string{"SKIPPED", "PAUSED", "QUEUED", "nobody", "FAILED", "EXECUTING", "COMPLETED"}
	for _, c := range []struct {
		verb   inspect.Verb
		filter inspect.Filter
		want   string
	}{
		{
			inspect.Cancel, inspect.Filter{},
			"COMPLETED finished, EXECUTING cancelled, FAILED finished, PAUSED cancelled, QUEUED cancelled, " +
				"SKIPPED finished",
		},
		{
			inspect.Cancel, inspect.Filter{Statuses: []store.Status{"QUEUED", "PAUSED"}},
			"PAUSED cancelled, QUEUED cancelled",
		},
		{inspect.Pause, inspect.Filter{IDPrefix: "QUE"}, "QUEUED paused"},
		{inspect.Resume, inspect.Filter{Statuses: []store.Status{"PAUSED"}}, "PAUSED queued"},
		{
			inspect.RunNow, inspect.Filter{},
			"COMPLETED queued, EXECUTING again, FAILED queued, PAUSED queued, QUEUED queued, SKIPPED queued",
		},
		{inspect.Retry, inspect.Filter{Message: "it was"}, "COMPLETED finished, FAILED queued, SKIPPED finished"},
		{
			inspect.Delete, inspect.Filter{},
			"COMPLETED deleted, EXECUTING running, FAILED deleted, PAUSED deleted, QUEUED deleted, SKIPPED deleted",
		},
		{inspect.Delete, inspect.Filter{Type: "OTHER"}, ""},
	} {
		t.Run(string(c.verb), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			for _, kind := range append([]string{"CANCELLED"}, ids...) { // the one is not among the ids
				if kind != "nobody" {
					b.Make(kind, kind)
				}
			}
			before := b.Lines("CANCELLED")
			receipts, err := b.Inspector.Apply(b.Ctx, b.Pool, inspect.Action{Verb: c.verb}, ids, c.filter)
			b.Check(err)
			if got := strings.Join(outcomes(receipts), ", "); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			same(b, "what is not among the ids", b.Lines("CANCELLED"), before)
			for _, receipt := range receipts {
				if row := b.Get(receipt.ID); row != nil && row.Revision != receipt.Revision {
					t.Errorf("%s has revision %d, not %d", receipt.ID, row.Revision, receipt.Revision)
				}
			}
		})
	}
}

func TestApplyPausesUntil(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Schedule(base("one"))
	receipts, err := b.Inspector.Apply(
		b.Ctx, b.Pool, inspect.Action{Verb: inspect.Pause, Until: far(1)}, []string{"one"}, inspect.Filter{},
	)
	b.Check(err)
	row := b.Get("one")
	if strings.Join(outcomes(receipts), ", ") != "one paused" || row.PausedUntil == nil ||
		!row.PausedUntil.Equal(far(1)) {
		t.Errorf("%s, %s", strings.Join(outcomes(receipts), ", "), pretty(row))
	}
	same(b, "history", b.Lines("one"), []string{"schedule created " + service, "pause paused " + service})
}

// Each is due in its turn, in the order of the ids that were given, and is otherwise what it was.
func TestRetryOverATime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	given := []string{"d", "b", "waits", "a", "c"}
	for i, id := range []string{"a", "b", "c", "d"} {
		b.Schedule(store.Task{ID: id, Payload: payload(i), At: far(0), Priority: i, Expiration: time.Hour})
	}
	b.Schedule(base("waits"))
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET status = 'FAILED' WHERE id <> 'waits'`)
	const asked = `SELECT string_agg(id || priority || asked_revision || scheduled_at, ' ' ORDER BY id)
		FROM tasktable.scheduled_tasks`
	before, from := testbench.One[string](b.Bench, b.Pool, asked), b.Now()
	action := inspect.Action{Verb: inspect.Retry, Over: 50 * time.Minute, After: time.Hour}
	receipts, err := b.Inspector.Apply(b.Ctx, b.Pool, action, given, inspect.DeadLetters())
	b.Check(err)
	same(b, "outcomes", strings.Join(outcomes(receipts), ", "), "a queued, b queued, c queued, d queued")
	took := b.Now().Sub(from)
	for place, id := range given {
		row := b.Get(id)
		if id == "waits" {
			same(b, "what is no dead letter", row.NextAttemptAt.UTC(), far(0))
			continue
		}
		late := row.NextAttemptAt.Sub(from) - time.Hour - time.Duration(place)*10*time.Minute
		if row.Status != store.StatusQueued || late < 0 || late > took {
			t.Errorf("%s is due %s after its turn: %s", id, late, pretty(row))
		}
	}
	same(b, "priorities, times and idempotency keys", testbench.One[string](b.Bench, b.Pool, asked), before)
}

func TestRetryOverABadTimeIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Make("FAILED", "FAILED")
	for rule, action := range map[string]inspect.Action{
		"over must be from 0 to 24h0m0s":                        {Verb: inspect.Retry, Over: -1},
		"over must be from 0 to 24h0m0s, got 24h0m0.000000001s": {Verb: inspect.Retry, Over: inspect.MaxOver + 1},
		"after must be from 0 to 24h0m0s, together with over":   {Verb: inspect.Retry, Over: inspect.MaxOver, After: 1},
		"over is for retry alone, got archive":                  {Verb: inspect.Archive, Over: 1},
	} {
		_, err := b.Inspector.Apply(b.Ctx, noDB(b), action, []string{"FAILED"}, inspect.Filter{})
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), rule) {
			t.Errorf("%v does not say %s", err, rule)
		}
	}
	for _, delay := range []string{"-1 second", "24 hours 1 second", "2 days"} {
		_, err := b.Pool.Exec(b.Ctx, `SELECT tasktable.retry('FAILED', delay => $1::text::interval)`, delay)
		if err == nil || !strings.Contains(err.Error(), "delay of retry must be from 0 to 24 hours") {
			t.Errorf("%s: %v", delay, err)
		}
	}
	if row := b.Get("FAILED"); row.Status != store.StatusFailed {
		t.Errorf("changed: %s", pretty(row))
	}
}

// What an open transaction makes of a task decides, not what it was when it was chosen.
func TestApplyLeavesAloneWhatIsChangedMeanwhile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, id := range []string{"edited", "kept"} {
		b.Make(id, "COMPLETED")
	}
	tx := b.Begin(pgx.TxOptions{})
	b.Exec(tx, `SELECT tasktable.run_now('edited')`)
	type answer struct {
		receipts []store.Receipt
		err      error
	}
	answered := make(chan answer, 1)
	conn, err := pgx.ConnectConfig(b.Ctx, b.Pool.Config().ConnConfig)
	b.Check(err)
	b.Cleanup(func() { _ = conn.Close(context.Background()) })
	go func() {
		receipts, err := b.Inspector.Apply(
			b.Ctx, conn, inspect.Action{Verb: inspect.Delete}, []string{"edited", "kept"},
			inspect.Filter{Statuses: []store.Status{"COMPLETED"}},
		)
		answered <- answer{receipts, err}
	}()
	for waits := false; !waits; b.Check(b.Ctx.Err()) {
		waits = one[bool](b, b.Pool, `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND pid = $1)
			FROM pg_sleep(0.01)`, int(conn.PgConn().PID()))
	}
	b.Check(tx.Commit(b.Ctx))
	got := <-answered
	b.Check(got.err)
	if strings.Join(outcomes(got.receipts), ", ") != "kept deleted" {
		t.Errorf("got %s", strings.Join(outcomes(got.receipts), ", "))
	}
	if row := b.Get("edited"); row == nil || row.Status != store.StatusQueued {
		t.Errorf("edited is %s", pretty(row))
	}
}

func TestApplyRefusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Make("QUEUED", "QUEUED")
	before := b.Get("QUEUED")
	for want, call := range map[string]func() ([]store.Receipt, error){
		"verb must be": func() ([]store.Receipt, error) {
			return b.Inspector.Apply(b.Ctx, b.Pool, inspect.Action{Verb: "erase"}, []string{"QUEUED"}, inspect.Filter{})
		},
		"id must be": func() ([]store.Receipt, error) {
			return b.Inspector.Apply(
				b.Ctx, b.Pool, inspect.Action{Verb: inspect.Cancel}, []string{"QUEUED", ""}, inspect.Filter{},
			)
		},
		"status must be": func() ([]store.Receipt, error) {
			return b.Inspector.Apply(
				b.Ctx, b.Pool, inspect.Action{Verb: inspect.Cancel}, []string{"QUEUED"},
				inspect.Filter{Statuses: []store.Status{"queued"}},
			)
		},
		"until must be": func() ([]store.Receipt, error) {
			return b.Inspector.Apply(
				b.Ctx, b.Pool, inspect.Action{Verb: inspect.Pause, Until: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
				[]string{"QUEUED"}, inspect.Filter{},
			)
		},
	} {
		receipts, err := call()
		if err == nil || !strings.Contains(err.Error(), want) || len(receipts) > 0 {
			t.Errorf("got %v, %v, not an error that says %s", receipts, err, want)
		}
	}
	same(b, "task", b.Get("QUEUED"), before)
	if receipts, err := b.Inspector.Apply(
		b.Ctx, b.Pool, inspect.Action{Verb: inspect.Cancel}, nil, inspect.Filter{},
	); err != nil || len(receipts) > 0 {
		t.Errorf("of no ids: %v, %v", receipts, err)
	}
}
