package leader

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/session"
)

func TestProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p progress
		fails := func(d time.Duration) (rests bool) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) { // of the bubble's clock
				rests = p.note(false)
			}
			return rests
		}
		if fails(maxFailing) || p.rests() {
			t.Error("it rests too early")
		}
		p.note(true)
		if fails(maxFailing) {
			t.Error("it rests, though a pass had got on meanwhile")
		}
		if !fails(time.Second) || !p.rests() {
			t.Error("not noticed")
		}
		if fails(time.Second) {
			t.Error("said twice")
		}
		time.Sleep(restFor)
		if p.rests() {
			t.Error("it rests for ever")
		}
	})
}

// A leader that cannot claim, for a reason of its own, lets another lead.
func TestLeaderWithoutProgressResigns(t *testing.T) {
	b := newBench(t)
	run := func() *Leader {
		l := b.candidate(func(c *Config, _ *session.Registration) { c.PollInterval, c.Turned = time.Minute, func() {} })
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { _ = l.Run(ctx, nil) })
		t.Cleanup(func() { cancel(); running.Wait() })
		return l
	}
	first := run()
	enginetest.Eventually(t, enginetest.Patience, "the first leads", first.session.Leads)
	b.Exec(fmt.Sprintf(`CREATE FUNCTION stuck() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF current_setting('application_name') = 'tasktable leader of node %d' THEN
				RAISE EXCEPTION 'this connection carries nothing' USING ERRCODE = '58030';
			END IF;
			RETURN NEW;
		END $$;
		CREATE TRIGGER stuck BEFORE INSERT ON tasktable.river_job FOR EACH ROW EXECUTE FUNCTION stuck()`,
		first.session.Number))
	second := run()
	began := time.Now()
	b.Add("a", nil)
	enginetest.Eventually(t, maxFailing+restFor, "the second leads", second.session.Leads)
	if took := time.Since(began); took < maxFailing-time.Second {
		t.Errorf("it took only %s", took)
	}
	b.Sees("the second claims", `SELECT status = 'EXECUTING' FROM tasktable.scheduled_tasks`)
}
