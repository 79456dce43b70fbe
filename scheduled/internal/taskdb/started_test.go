package taskdb_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// A claim that is lost leaves what its node has written; a row that an application has locked is written later.
func TestStartsAreWritten(t *testing.T) {
	b := newBench(t)
	b.Due("free", "locked", "ended", "unwritten")
	holds := b.Take(noon)
	b.End(noon, enginetest.Completed(holds["ended"]))
	before := enginetest.StateOf(t, b.Pool, "ended")
	unlock := enginetest.Lock(t, b.Pool, "locked")
	began := noon.Add(time.Second)
	write := func(ids ...string) (written []string) {
		t.Helper()
		var asked []taskdb.Claim
		var starts []time.Time
		for _, id := range ids {
			asked, starts = append(asked, holds[id]), append(starts, began)
		}
		fences, err := b.Start(t.Context(), b.Pool, 9, asked, starts)
		b.OK(err)
		for _, id := range ids {
			if slices.Contains(fences, holds[id].Fence) {
				written = append(written, id)
			}
		}
		return written
	}
	if written := write("free", "locked", "ended"); fmt.Sprint(written) != "[free]" {
		t.Errorf("written %v", written)
	}
	unlock()
	if written := write("locked"); fmt.Sprint(written) != "[locked]" {
		t.Errorf("unlocked: written %v", written)
	}
	b.Expect("ended", "ended", before)
	dead := int64(7)
	b.InTx(func(tx pgx.Tx) {
		_, err := b.Settle(t.Context(), tx, &noon, nil, []taskdb.Settlement{
			taskdb.Lost(holds["free"], "its lease ended"), taskdb.Lost(holds["unwritten"], "its lease ended"),
		})
		if err == nil {
			_, err = b.Settle(t.Context(), tx, &noon, &dead, []taskdb.Settlement{taskdb.Lost(
				holds["locked"], "node 7 died",
			)})
		}
		b.OK(err)
	})
	for id, want := range map[string]string{
		"free": `LOST rev=1 attempt=1 scheduled=noon due=noon started=1s finished=noon error="its lease ended" ` +
			`node=9`,
		"locked":    `LOST rev=1 attempt=1 scheduled=noon due=noon started=1s finished=noon error="node 7 died" node=7`,
		"unwritten": `LOST rev=1 attempt=1 scheduled=noon due=noon finished=noon error="its lease ended"`,
	} {
		if got := enginetest.StateOf(t, b.Pool, id); !strings.Contains(got, want) {
			t.Errorf("%s:\n%s\nlacks\n%s", id, got, want)
		}
	}
	// The next attempt has not started, whatever the row says of the one before.
	b.Take(noon)
	if n := b.written(); n != 0 {
		t.Errorf("%d claims have a start that is another's", n)
	}
}

// written counts the claims whose start is written.
func (b *bench) written() (n int) {
	b.T.Helper()
	b.OK(b.Pool.QueryRow(
		b.T.Context(), `SELECT count(started_at) FROM tasktable.running_tasks`,
	).Scan(&n))
	return n
}

// An application has a table that refers to tasks. While it inserts a row there, the claim's lease is extended, its
// start is written, and its outcome is recorded.
func TestAForeignKeyHoldsNothingUp(t *testing.T) {
	b := newBench(t)
	b.Exec(`CREATE TABLE public.parcels (task_id text REFERENCES tasktable.scheduled_tasks)`)
	for name, settle := range map[string]func(taskdb.Claim) taskdb.Settlement{
		"completed": enginetest.Completed,
		"retried":   func(h taskdb.Claim) taskdb.Settlement { return enginetest.Retried(h, time.Hour, "no") },
		"again": func(h taskdb.Claim) taskdb.Settlement {
			s := enginetest.Completed(h)
			s.Effects.Again = new(noon.Add(time.Hour))
			return s
		},
		"followed": func(h taskdb.Claim) taskdb.Settlement {
			s := enginetest.Completed(h)
			s.Effects.FollowUps = []store.Task{{ID: "next", Payload: job{Name: "next"}, At: noon.Add(time.Hour)}}
			return s
		},
	} {
		hold := b.TakeOne(store.Task{ID: name, Payload: job{Name: name}})
		tx := b.Begin()
		b.Did(tx.Exec(t.Context(), `INSERT INTO public.parcels VALUES ($1)`, name))
		if _, extended, err := b.Extend(t.Context(), b.Pool, hold, time.Minute, nil); err != nil || !extended {
			t.Errorf("%s: extended %t: %v", name, extended, err)
		}
		holds := []taskdb.Claim{hold}
		started, err := b.Start(t.Context(), b.Pool, 7, holds, []time.Time{noon})
		if err != nil || len(started) != 1 {
			t.Errorf("%s: started %v: %v", name, started, err)
		}
		if done := b.End(noon.Add(time.Second), settle(hold)); len(done) != 1 || !done[0].Settled {
			t.Errorf("%s: settled as %+v", name, done)
		}
		b.OK(tx.Rollback(t.Context()))
	}
}
