package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// The tasks of one River job, in one slot, settled together: whatever one of them does, the others are run and
// recorded as if they were alone.
func TestBatchMates(t *testing.T) {
	s := newBench(t)
	var noError *handlers.SnoozeError
	var noJob *enginetest.Job
	released := make(chan struct{})
	misdeeds := map[string]struct {
		do     func(e *handlers.Execution) error
		status store.Status
		want   string // in the recorded error
	}{
		"panics": {
			func(*handlers.Execution) error { panic("boom\x00\xff") }, store.StatusFailed,
			"handler panicked: boom\uFFFD",
		},
		"exits": {
			func(*handlers.Execution) error { runtime.Goexit(); return nil }, store.StatusFailed, "runtime.Goexit",
		},
		"NUL and bad UTF-8": {
			func(*handlers.Execution) error { return errors.New("a\x00b\xff\xed\xa0\x80c") }, store.StatusFailed,
			"a\uFFFDb\uFFFDc",
		},
		"long error": {
			func(*handlers.Execution) error { return errors.New(strings.Repeat("€", 1<<20)) }, store.StatusFailed,
			"€€€",
		},
		"nil of an error type": {
			func(*handlers.Execution) error { return noError }, store.StatusFailed, "whose method Error panicked",
		},
		"hostile error": {
			func(*handlers.Execution) error { return &enginetest.Hostile{InError: true, InAs: true, InUnwrap: true} },
			store.StatusFailed, "whose method Error panicked",
		},
		"bad result": {
			func(e *handlers.Execution) error { e.Result(func() {}); return nil }, store.StatusFailed,
			"unsupported type",
		},
		"NUL in the note": {
			func(e *handlers.Execution) error { e.Note("a\x00b\xff"); return nil }, store.StatusCompleted, "",
		},
		"NUL in the result": {
			func(e *handlers.Execution) error { e.Result("a\x00b"); return nil }, store.StatusCompleted, "",
		},
		"number beyond jsonb": {
			func(e *handlers.Execution) error { e.Result(json.Number("1e200000")); return nil }, store.StatusFailed,
			"could not be recorded",
		},
		"result too deep": {func(e *handlers.Execution) error {
			e.Result(json.RawMessage(strings.Repeat("[", 9999) + strings.Repeat("]", 9999)))
			return nil
		}, "", ""},
		"bad follow-up": {
			func(e *handlers.Execution) error { e.FollowUp(store.Task{Payload: enginetest.Job{}}); return nil },
			store.StatusFailed, "follow-up 1: invalid: id",
		},
		"nil follow-up": {
			func(e *handlers.Execution) error { e.FollowUp(store.Task{Payload: noJob}); return nil },
			store.StatusFailed, "follow-up 1",
		},
		"hostile follow-up": {
			func(e *handlers.Execution) error { e.FollowUp(store.Task{Payload: enginetest.Spiteful{}}); return nil },
			store.StatusFailed, "no JSON",
		},
		"refused follow-up": {
			func(e *handlers.Execution) error {
				e.FollowUp(store.Task{Payload: enginetest.Job{Name: "refused"}})
				return nil
			},
			store.StatusFailed, "no such names",
		},
		"good follow-up": {func(e *handlers.Execution) error {
			e.FollowUp(store.Task{ID: "next", Payload: enginetest.Job{Name: "next"}})
			return nil
		}, store.StatusCompleted, ""},
		"again at no time": {
			func(e *handlers.Execution) error { e.Again(time.Time{}); return nil }, store.StatusFailed,
			"Again: invalid",
		},
		"refused by a rule": {
			func(e *handlers.Execution) error { e.Note("forbidden"); return nil }, store.StatusFailed, "no such notes",
		},
		"refused by triggers": {
			func(e *handlers.Execution) error { e.Note("raise"); return nil }, store.StatusFailed,
			"the application says no",
		},
		"slow": {func(*handlers.Execution) error { <-released; return nil }, store.StatusCompleted, ""},
	}
	// What an application may add to the table.
	s.Exec(
		`ALTER TABLE tasktable.scheduled_tasks ADD CONSTRAINT "no such names" CHECK (payload ->> 'name' <> 'refused'),
		ADD CONSTRAINT "no such notes" CHECK (message <> 'forbidden')`,
	)
	s.Exec(`CREATE FUNCTION refuse() RETURNS trigger
		LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'the application says no'; END $$`)
	s.Exec(`CREATE TRIGGER refuse BEFORE UPDATE ON tasktable.scheduled_tasks FOR EACH ROW WHEN (NEW.message = 'raise')
		EXECUTE FUNCTION refuse()`)
	tr := s.prepare(nil, handlers.Handle(func(_ context.Context, task *handlers.Task[enginetest.Job]) error {
		if misdeed, found := misdeeds[task.ID]; found {
			return misdeed.do(task.Execution)
		}
		return nil
	}))
	good := 0
	mate := func() {
		s.Add(fmt.Sprint("good ", good), nil)
		good++
	}
	n := 0
	for id := range misdeeds {
		mate()
		s.Add(id, func(task *store.Task) { task.MaxAttempts = 1 })
		n++
	}
	mate()
	s.Add("undecodable", func(task *store.Task) {
		task.Payload = store.JSON(`{"type":"JOB","name":{"no":"text"}}`)
	})
	mate()
	tr.begin()
	tr.batch(n+1+good, 0)
	tr.serve() // the follow-up, and those that are handed back on a busy machine
	for i := range good {
		s.Ends(fmt.Sprint("good ", i), store.StatusCompleted, taskdb.OutcomeCompleted)
	}
	s.Ends("undecodable", store.StatusFailed, taskdb.OutcomeFailed)
	if got := s.ErrorOf("undecodable"); !strings.HasPrefix(got, "payload does not decode: ") {
		t.Errorf("an undecodable payload is recorded as %q", got)
	}
	close(released)
	for id, misdeed := range misdeeds {
		switch misdeed.status {
		case store.StatusCompleted:
			s.Ends(id, misdeed.status, taskdb.OutcomeCompleted)
		case store.StatusFailed:
			s.Ends(id, misdeed.status, taskdb.OutcomeFailed)
		default:
			row := enginetest.Await(t, s.Pool, id, patience, store.StatusCompleted, store.StatusFailed)
			t.Logf("%s: %s", id, row.Status)
		}
		if got := s.ErrorOf(id); !strings.Contains(got, misdeed.want) {
			t.Errorf("%s: recorded as %q, want %q", id, got, misdeed.want)
		}
	}
	s.Ends("next", store.StatusCompleted, taskdb.OutcomeCompleted)
}
