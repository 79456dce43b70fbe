package scheduled

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/store"
)

// What a connection to a server that was made a standby comes to.
const standbySQL = `SET default_transaction_read_only = on`

// A session whose server has become a standby ends, and with it the node's life: the next connects to the primary.
func TestReadOnlySessionEnds(t *testing.T) {
	t.Parallel()
	for name, leads := range map[string]bool{"of the leader": true, "of another": false} {
		t.Run(name, func(t *testing.T) {
			s := newBench(t)
			s.cut = true
			tr := s.prepare(nil, handlers.Handle(s.Handle))
			if leads { // the leader's connection, which is not open yet, finds out
				if err := tr.session.Ask(t.Context(), true); err != nil || !tr.session.Leads() {
					t.Fatalf("leads: %t, %v", tr.session.Leads(), err)
				}
				database := s.Pool.Config().ConnConfig.Database
				s.Exec(`ALTER DATABASE ` + database + ` SET default_transaction_read_only = on`)
			} else if _, err := tr.session.Conn.Exec(t.Context(), standbySQL); err != nil {
				t.Fatal(err)
			}
			if err := tr.instance.run(t.Context()); !errors.Is(err, pg.ErrReadOnly) {
				t.Errorf("the life ends with %v", err)
			}
			if tr.session.Leads() {
				t.Error("it still leads")
			}
		})
	}
}

// A node that is led to a standby finds its way back, and loses nothing.
func TestNodeSurvivesAFailover(t *testing.T) {
	f := newBench(t)
	stop := startNode(
		t, f.nodes, nil,
		handlers.Handle(func(context.Context, *handlers.Task[enginetest.Job]) error { return nil }),
	)
	const completed = `SELECT coalesce(bool_and(status = 'COMPLETED'), false) FROM tasktable.scheduled_tasks`
	f.Did(enginetest.Tasks.Schedule(t.Context(), f.Pool, store.Task{Payload: enginetest.Job{Name: "first"}}))
	f.Sees("the node works", completed)
	database := f.Pool.Config().ConnConfig.Database
	for round := range 2 {
		f.Exec(`ALTER DATABASE ` + database + ` SET default_transaction_read_only = on`)
		f.end("tasktable")
		f.Did(enginetest.Tasks.Schedule(t.Context(), f.Pool, store.Task{
			Payload: enginetest.Job{Name: fmt.Sprint(round)},
		}))
		f.Sees("no node is at work", `SELECT count(*) = 0 FROM pg_stat_activity
			WHERE application_name LIKE 'tasktable engine%' AND datname = current_database()`)
		f.Exec(`ALTER DATABASE ` + database + ` RESET default_transaction_read_only`)
		f.Sees("all are completed", completed)
	}
	stop()
}
