package scheduled

import (
	"fmt"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/leader"
	"github.com/tasktable/tasktable/store"
)

const stuckSQL = `
CREATE TABLE stuck (name text);
CREATE FUNCTION stuck() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF current_setting('application_name') IN (SELECT name FROM stuck) THEN
        RAISE EXCEPTION 'this connection carries nothing' USING ERRCODE = '58030';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER stuck BEFORE INSERT ON tasktable.river_job FOR EACH ROW EXECUTE FUNCTION stuck()`

// A leader that cannot claim, for a reason of its own, lets another lead.
func TestLeaderWithoutProgressResigns(t *testing.T) {
	t.Parallel()
	s := newBench(t)
	s.Exec(stuckSQL)
	first := s.prepare(nil, handlers.Handle(s.Handle))
	s.Exec(`INSERT INTO stuck VALUES ($1)`, fmt.Sprintf("tasktable leader of node %d", first.session.Number))
	first.run()
	enginetest.Eventually(t, patience, "the first leads", first.session.Leads)
	second := s.prepare(nil, handlers.Handle(s.Handle))
	second.run()
	began := time.Now()
	s.Add("a", nil)
	enginetest.Eventually(t, leader.MaxFailing+leader.RestFor, "the second leads", second.session.Leads)
	if took := time.Since(began); took < leader.MaxFailing-time.Second {
		t.Errorf("it took only %s", took)
	}
	s.Begins("a").End <- nil
	s.Is("a", store.StatusCompleted, "COMPLETED")
}

// A node that leads again counts from its own first look, as any new leader does, how long the others have been gone:
// what it saw when it led before says nothing of one whose session has just broken, and whose handlers still run.
func TestLeaderOnceMoreGivesNodesTheirTime(t *testing.T) {
	t.Parallel()
	s := newBench(t)
	tr := s.prepare(nil, handlers.Handle(s.Handle))
	tr.turns()
	var other int64
	if err := s.Pool.QueryRow(t.Context(), `INSERT INTO tasktable.nodes (service, version, host, queues, types)
		VALUES ('', '', '', '{}', '{}') RETURNING number`).Scan(&other); err != nil {
		t.Fatal(err)
	}
	tr.leader.DeadNodes.Heard[other] = time.Now().Add(-time.Minute) // when it led before, the other lived
	if err := tr.session.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	tr.turns()
	if n := s.Count(`SELECT count(*) FROM tasktable.nodes WHERE number = $1 AND dead_at IS NULL`, other); n != 1 {
		t.Error("the other node was taken for dead at the first look")
	}
	tr.leader.DeadNodes.Heard[other] = time.Now().Add(-leader.DeadAfter)
	tr.turns()
	if n := s.Count(`SELECT count(*) FROM tasktable.nodes WHERE number = $1 AND dead_at IS NULL`, other); n != 0 {
		t.Error("the other node is not taken for dead when its time is over")
	}
	tr.run()
}
