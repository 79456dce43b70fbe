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
