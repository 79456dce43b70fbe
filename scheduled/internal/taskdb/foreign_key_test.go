package taskdb_test

import (
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

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
