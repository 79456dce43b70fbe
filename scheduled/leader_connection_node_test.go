package scheduled

import (
	"fmt"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
)

// A statement of the leader that takes 8 s stops no handler: the session has nothing else to do than to be heard.
func TestSlowStatementOfTheLeaderFencesNobody(t *testing.T) {
	s := newBench(t)
	s.Exec(`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			PERFORM pg_sleep(8);
			RETURN NEW;
		EXCEPTION WHEN query_canceled THEN -- as a trigger may do that does not mind statement_timeout
			PERFORM pg_sleep(6);
			RETURN NEW;
		END $$`)
	s.Exec(`CREATE TRIGGER slow BEFORE UPDATE ON tasktable.scheduled_tasks FOR EACH ROW
		WHEN (NEW.id = 'slow' AND NEW.status = 'EXECUTING' AND OLD.status = 'QUEUED') EXECUTE FUNCTION slow()`)
	s.node(nil)
	s.Add("runs", nil)
	runs := s.Begins("runs")
	began := time.Now()
	s.Add("slow", nil)
	s.Begins("slow").End <- nil
	if took := time.Since(began); took < 7*time.Second {
		t.Errorf("the claim took only %s", took)
	}
	if err := runs.Ctx.Err(); err != nil {
		t.Errorf("the handler is stopped: %v", err)
	}
	runs.End <- nil
	s.Is("runs", store.StatusCompleted, "COMPLETED")
	s.Counts("nodes", 1, `SELECT count(*) FROM tasktable.nodes`)
}

// A leader whose connection is cut opens another. It goes on leading, and claims at once.
func TestLeaderOpensItsConnectionAgain(t *testing.T) {
	f := newBench(t)
	v := newVisitor()
	close(v.let)
	startNode(t, f.nodes, nil, handlers.Handle(v.handle))
	for round := range 3 {
		enginetest.Schedule(t, f.Pool, store.Task{Payload: enginetest.Job{Name: fmt.Sprint("before ", round)}})
		enginetest.Receive(t, v.began, patience, "a task runs")
		number := f.leading()
		if n := f.end("tasktable leader"); n != 1 {
			t.Fatalf("%d connections of a leader", n)
		}
		began := time.Now()
		enginetest.Schedule(t, f.Pool, store.Task{Payload: enginetest.Job{Name: fmt.Sprint("after ", round)}})
		enginetest.Receive(t, v.began, patience, "a task runs")
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("claims go on after %s", took)
		}
		if now := f.leading(); now != number {
			t.Errorf("node %d leads after node %d", now, number)
		}
	}
}
