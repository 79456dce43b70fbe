package scheduled

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

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
