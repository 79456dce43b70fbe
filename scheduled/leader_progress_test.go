package scheduled

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/store"
)

func TestProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p progress
		fails := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) { // of the bubble's clock
				p.note(false)
			}
		}
		fails(maxFailing - time.Second)
		if p.none() || p.rests() {
			t.Error("none too early")
		}
		p.note(true)
		fails(maxFailing - time.Second)
		if p.none() {
			t.Error("none, though a pass had got on meanwhile")
		}
		fails(2 * time.Second)
		if !p.none() || !p.rests() {
			t.Error("not noticed")
		}
		if p.none() {
			t.Error("said twice")
		}
		time.Sleep(restFor)
		if p.rests() {
			t.Error("it rests for ever")
		}
	})
}

const stuckSQL = `
CREATE TABLE stuck (pid int);
CREATE FUNCTION stuck() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF pg_backend_pid() IN (SELECT pid FROM stuck) THEN
        RAISE EXCEPTION 'this connection carries nothing' USING ERRCODE = '58030';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER stuck BEFORE INSERT ON tasktable.river_job FOR EACH ROW EXECUTE FUNCTION stuck()`

// A leader that cannot claim, for a reason of its own, lets another lead.
func TestLeaderWithoutProgressResigns(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.exec(stuckSQL)
	first := s.prepare(nil, handlers.Handle(s.handle))
	s.exec(`INSERT INTO stuck VALUES ($1)`, int(first.session.backend))
	first.run()
	eventually(t, 10*time.Second, "the first leads", first.session.leading.Load)
	second := s.prepare(nil, handlers.Handle(s.handle))
	second.run()
	began := time.Now()
	s.schedule("a", nil)
	eventually(t, maxFailing+restFor, "the second leads", second.session.leading.Load)
	if took := time.Since(began); took < maxFailing-time.Second {
		t.Errorf("it took only %s", took)
	}
	s.begins("a").end <- nil
	s.is("a", store.StatusCompleted, "COMPLETED")
}

// A node that leads again counts from its own first look, as any new leader does, how long the others have been gone:
// what it saw when it led before says nothing of one whose session has just broken, and whose handlers still run.
func TestLeaderOnceMoreGivesNodesTheirTime(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	tr := s.prepare(nil, handlers.Handle(s.handle))
	due, death := time.NewTimer(time.Hour), time.NewTimer(time.Hour)
	defer due.Stop()
	defer death.Stop()
	tick := func() {
		t.Helper()
		eventually(t, 10*time.Second, "the leader has seen all that is there", func() bool {
			if _, err := tr.tick(t.Context(), false, due, death); err != nil || !tr.session.leads {
				t.Fatalf("leads: %t, %v", tr.session.leads, err)
			}
			return tr.leader.deep.made
		})
	}
	tick()
	var other int64
	if err := s.pool.QueryRow(t.Context(), `INSERT INTO tasktable.nodes (service, version, host, queues, types)
		VALUES ('', '', '', '{}', '{}') RETURNING number`).Scan(&other); err != nil {
		t.Fatal(err)
	}
	tr.leader.failures.heard[other] = time.Now().Add(-time.Minute) // when it led before, the other lived
	if err := tr.session.resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	tick()
	if n := s.count(`SELECT count(*) FROM tasktable.nodes WHERE number = $1 AND dead_at IS NULL`, other); n != 1 {
		t.Error("the other node was taken for dead at the first look")
	}
	tr.leader.failures.heard[other] = time.Now().Add(-deadAfter)
	tick()
	if n := s.count(`SELECT count(*) FROM tasktable.nodes WHERE number = $1 AND dead_at IS NULL`, other); n != 0 {
		t.Error("the other node is not taken for dead when its time is over")
	}
	tr.run()
}
