package scheduled

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
	"github.com/tasktable/tasktable/store/storetest"
)

var (
	howLong  = regexp.MustCompile(`[0-9.]+(ms|µs|s)\b`)
	whatHost = regexp.MustCompile(`\([^()]*/\d+, test [^()]*\)`)
)

// lived is a story with H for hosts and D for durations, and the facts without their times.
func lived(e inspect.Explanation) string {
	var out strings.Builder
	for _, line := range e.Story {
		fmt.Fprint(&out, howLong.ReplaceAllString(whatHost.ReplaceAllString(line.Text, "(H)"), "D"))
		for _, fact := range line.Facts {
			if text, ok := fact.Value.(string); ok {
				fmt.Fprintf(&out, ", %s %s", fact.Name, text)
			} else {
				fmt.Fprintf(&out, ", %s", fact.Name)
			}
		}
		out.WriteString("\n")
	}
	return out.String()
}

func (s *bench) why(id string) inspect.Explanation {
	s.T.Helper()
	e, err := inspect.New(store.Config{}).Why(s.T.Context(), s.Pool, id)
	s.OK(err)
	return e
}

// The whole life of a task that fails once and then completes, told while it goes on.
func TestWhyOfANode(t *testing.T) {
	s := newBench(t)
	s.node(func(c *Config) {
		c.Version = "v1"
		c.Backoff = func(int, error) time.Duration { return 3 * time.Second }
	}, handlers.Handle(s.Handle))
	s.Sees("the node leads", `SELECT count(*) = 1 FROM tasktable.node_states WHERE state = 'leads'`)
	number := enginetest.Ask[int64](s.Bench, `SELECT number FROM tasktable.node_states WHERE state = 'leads'`)
	node := fmt.Sprintf("node %d (H)", number)
	says := func(e inspect.Explanation, want string) {
		t.Helper()
		at := func(time.Time) string { return "T" }
		if got := howLong.ReplaceAllString(whatHost.ReplaceAllString(e.Reason.Sentence(at), "(H)"), "D"); got != want {
			t.Errorf("the reason is %q, not %q", got, want)
		}
	}

	s.Add("one", nil)
	a := s.Begins("one")
	e := s.why("one")
	says(e, "attempt 1 of 10 is with "+node+", claimed at T, its lease ends at T")
	if got, want := lived(e), "scheduled by test, scheduled_at\nattempt 1 was claimed\nattempt 1 was fetched by "+node+
		"\n"; got != want {
		t.Errorf("while it runs:\n%s\nwant\n%s", got, want)
	}
	a.End <- errors.New("421 try later")
	s.Sees("it waits for its next attempt",
		`SELECT count(*) = 1 FROM tasktable.scheduled_tasks WHERE status = 'QUEUED'`)
	says(s.why("one"), "attempt 1 of 10 failed, and the next waits for its time, due at T: 421 try later")
	s.Begins("one").End <- nil
	s.Is("one", store.StatusCompleted, taskdb.OutcomeRetried, taskdb.OutcomeCompleted)
	e = s.why("one")
	says(e, "completed by attempt 2 of 10 on "+node+" at T")
	if got, want := lived(e), "scheduled by test, scheduled_at\nattempt 1 began on "+node+
		", D after it was due\nattempt 1 failed, to be retried, took, error 421 try later\n"+
		"attempt 2 began on "+node+", D after it was due\nattempt 2 completed, took\n"; got != want {
		t.Errorf("its story:\n%s\nwant\n%s", got, want)
	}
	s.Idle("one")
}

// A task that is claimed, and that no node has taken up.
func TestWhyOfAClaimThatWaits(t *testing.T) {
	s := newBench(t)
	tr := s.prepare(nil, handlers.Handle(s.Handle))
	s.Add("one", nil)
	tr.oneBatch("default", 1)
	if e := s.why("one"); e.Reason.Text != "attempt 1 of 10 is claimed, and no node has fetched it yet" {
		t.Errorf("the reason is %q", e.Reason.Text)
	} else if got := e.Next[0].Text; got !=
		"its lease ends, and it is claimed again, unless a node has fetched it by then" {
		t.Errorf("what is next is %q", got)
	}
	s.Exec(`UPDATE tasktable.nodes SET queues = '{"mail": 1}'`)
	if e := s.why("one"); e.Reason.Text !=
		"attempt 1 of 10 is claimed, and no node has fetched it yet, because no running node works its queue and its "+
			"type" {
		t.Errorf("once its node is gone the reason is %q", e.Reason.Text)
	} else if got := e.Next[0].Text; got !=
		"the leader hands it back, and it waits for a node that works its queue and its type" {
		t.Errorf("once its node is gone what is next is %q", got)
	}
	s.Exec(`UPDATE tasktable.nodes SET queues = '{"default": 1}'`)
	tr.run()
	s.Begins("one").End <- nil // a claim this old may go back to the queue first
	s.Sees("it has run", `SELECT count(*) = 1 FROM tasktable.scheduled_tasks WHERE status = 'COMPLETED'
		AND fence IS NULL`)
}

// The views find nodes by the classes of their locks, in a schema of any name.
func TestLockClass(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), storetest.EmptyURL(t))
	enginetest.OK(t, err)
	t.Cleanup(pool.Close)
	for _, schema := range []string{"tasktable", "another_one"} {
		enginetest.OK(t, migrations.Up(t.Context(), pool, schema))
		for _, kind := range []string{"node", "leader"} {
			var class int64
			enginetest.OK(t, pool.QueryRow(t.Context(), `SELECT `+schema+`.lock_class($1)`, kind).Scan(&class))
			if want := int64(uint32(pg.LockClass(schema, kind))); class != want {
				t.Errorf("%s of schema %s: %d instead of %d", kind, schema, class, want)
			}
		}
	}
}

const startWrittenSQL = `SELECT count(*) FROM tasktable.running_tasks WHERE id = $1 AND started_at IS NOT NULL
	AND node IS NOT NULL`

// Whoever asks about a task that has run for some seconds learns when and where it started, also after
// somebody has edited it.
func TestWhyTellsTheStartOfARunningAttempt(t *testing.T) {
	s := newBench(t)
	s.node(nil, handlers.Handle(s.Handle))
	s.Add("one", nil)
	a := s.Begins("one")
	enginetest.Eventually(t, patience, "the start is written", func() bool {
		return s.Count(startWrittenSQL, "one") == 1
	})
	e := s.why("one")
	at := func(at time.Time) string {
		if at.Equal(a.StartedAt) {
			return "the start"
		}
		return "T"
	}
	node := fmt.Sprintf("node %d (H)", *e.Row.Node)
	got := whatHost.ReplaceAllString(e.Reason.Sentence(at), "(H)")
	if want := "attempt 1 of 10 runs on " + node +
		", claimed at T, its lease ends at T; it began at the start"; got != want {
		t.Errorf("the reason is %q, not %q", got, want)
	}
	lines := "attempt 1 was claimed\nattempt 1 was fetched by " + node + "\nattempt 1 began on " + node + "\n"
	if got := lived(e); got != "scheduled by test, scheduled_at\n"+lines {
		t.Errorf("while it runs:\n%s", got)
	}
	s.Did(s.Tasks.Reschedule(t.Context(), s.Pool, "one", time.Now().Add(time.Hour)))
	e = s.why("one")
	if got := lived(e); got != "scheduled by test, scheduled_at\n"+lines+"edited by test, scheduled_at\n" {
		t.Errorf("edited while it runs:\n%s", got)
	}
	if got := e.Reason.Sentence(at); !strings.HasSuffix(got, "; it began at the start") {
		t.Errorf("edited while it runs, the reason is %q", got)
	}
	a.End <- nil
	if row := s.Is("one", store.StatusQueued, taskdb.OutcomeSuperseded); row.Revision == a.Revision {
		t.Errorf("the edit is lost: %+v", row)
	}
}
