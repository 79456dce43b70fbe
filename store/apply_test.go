package store_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

// Each verb comes to the same as for one task, in the order of the ids, and only for what is both among the ids and selected.
func TestApplyIsEachVerbOnWhatTheFilterSelects(t *testing.T) {
	t.Parallel()
	ids := []string{"SKIPPED", "PAUSED", "QUEUED", "nobody", "FAILED", "EXECUTING", "COMPLETED"}
	for _, c := range []struct {
		verb   store.Verb
		filter store.Filter
		want   string
	}{
		{store.VerbCancel, store.Filter{}, "COMPLETED finished, EXECUTING cancelled, FAILED finished, PAUSED cancelled, QUEUED cancelled, SKIPPED finished"},
		{store.VerbCancel, store.Filter{Statuses: []store.Status{"QUEUED", "PAUSED"}}, "PAUSED cancelled, QUEUED cancelled"},
		{store.VerbPause, store.Filter{IDPrefix: "QUE"}, "QUEUED paused"},
		{store.VerbResume, store.Filter{Status: "PAUSED"}, "PAUSED queued"},
		{store.VerbRunNow, store.Filter{}, "COMPLETED queued, EXECUTING running, FAILED queued, PAUSED queued, QUEUED queued, SKIPPED queued"},
		{store.VerbRetry, store.Filter{Message: "it was"}, "COMPLETED finished, FAILED queued, SKIPPED finished"},
		{store.VerbDelete, store.Filter{}, "COMPLETED deleted, EXECUTING running, FAILED deleted, PAUSED deleted, QUEUED deleted, SKIPPED deleted"},
		{store.VerbDelete, store.Filter{Type: "OTHER"}, ""},
	} {
		t.Run(string(c.verb), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			for _, kind := range append([]string{"CANCELLED"}, ids...) { // the one is not among the ids
				if kind != "nobody" {
					b.make(kind, kind)
				}
			}
			before := b.lines("CANCELLED")
			receipts, err := b.tasks.Apply(b.ctx, b.pool, c.verb, ids, c.filter, time.Time{})
			b.check(err)
			if got := strings.Join(outcomes(receipts), ", "); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			same(b, "what is not among the ids", b.lines("CANCELLED"), before)
			for _, receipt := range receipts {
				if row := b.get(receipt.ID); row != nil && row.Revision != receipt.Revision {
					t.Errorf("%s has revision %d, not %d", receipt.ID, row.Revision, receipt.Revision)
				}
			}
		})
	}
}

func TestApplyPausesUntil(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.schedule(base("one"))
	receipts, err := b.tasks.Apply(b.ctx, b.pool, store.VerbPause, []string{"one"}, store.Filter{}, far(1))
	b.check(err)
	row := b.get("one")
	if strings.Join(outcomes(receipts), ", ") != "one paused" || row.PausedUntil == nil || !row.PausedUntil.Equal(far(1)) {
		t.Errorf("%s, %s", strings.Join(outcomes(receipts), ", "), pretty(row))
	}
	same(b, "history", b.lines("one"), []string{"schedule created " + service, "pause paused " + service})
}

// What an open transaction makes of a task decides, not what it was when it was chosen.
func TestApplyLeavesAloneWhatIsChangedMeanwhile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, id := range []string{"edited", "kept"} {
		b.make(id, "COMPLETED")
	}
	tx := b.begin(pgx.TxOptions{})
	b.exec(tx, `SELECT tasktable.run_now('edited')`)
	type answer struct {
		receipts []store.Receipt
		err      error
	}
	answered := make(chan answer, 1)
	conn, err := pgx.ConnectConfig(b.ctx, b.pool.Config().ConnConfig)
	b.check(err)
	b.Cleanup(func() { _ = conn.Close(context.Background()) })
	go func() {
		receipts, err := b.tasks.Apply(b.ctx, conn, store.VerbDelete, []string{"edited", "kept"}, store.Filter{Status: "COMPLETED"}, time.Time{})
		answered <- answer{receipts, err}
	}()
	for waits := false; !waits; b.check(b.ctx.Err()) {
		waits = one[bool](b, b.pool, `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND pid = $1) FROM pg_sleep(0.01)`, int(conn.PgConn().PID()))
	}
	b.check(tx.Commit(b.ctx))
	got := <-answered
	b.check(got.err)
	if strings.Join(outcomes(got.receipts), ", ") != "kept deleted" {
		t.Errorf("got %s", strings.Join(outcomes(got.receipts), ", "))
	}
	if row := b.get("edited"); row == nil || row.Status != store.StatusQueued {
		t.Errorf("edited is %s", pretty(row))
	}
}

func TestApplyRefusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.make("QUEUED", "QUEUED")
	before := b.state("QUEUED")
	for want, call := range map[string]func() ([]store.Receipt, error){
		"verb must be": func() ([]store.Receipt, error) {
			return b.tasks.Apply(b.ctx, b.pool, "erase", []string{"QUEUED"}, store.Filter{}, time.Time{})
		},
		"id must be": func() ([]store.Receipt, error) {
			return b.tasks.Apply(b.ctx, b.pool, store.VerbCancel, []string{"QUEUED", ""}, store.Filter{}, time.Time{})
		},
		"status must be": func() ([]store.Receipt, error) {
			return b.tasks.Apply(b.ctx, b.pool, store.VerbCancel, []string{"QUEUED"}, store.Filter{Statuses: []store.Status{"queued"}}, time.Time{})
		},
		"until must be": func() ([]store.Receipt, error) {
			return b.tasks.Apply(b.ctx, b.pool, store.VerbPause, []string{"QUEUED"}, store.Filter{}, time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))
		},
	} {
		receipts, err := call()
		if err == nil || !strings.Contains(err.Error(), want) || len(receipts) > 0 {
			t.Errorf("got %v, %v, not an error that says %s", receipts, err, want)
		}
	}
	same(b, "task", b.state("QUEUED"), before)
	if receipts, err := b.tasks.Apply(b.ctx, b.pool, store.VerbCancel, nil, store.Filter{}, time.Time{}); err != nil || len(receipts) > 0 {
		t.Errorf("of no ids: %v, %v", receipts, err)
	}
}
