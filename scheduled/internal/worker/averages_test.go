package worker

import (
	"fmt"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

func TestAveragesAreWrittenAndRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		encodeAverages(map[string]time.Duration{
			"A": 1500 * time.Microsecond, `"B"`: time.Hour,
		}): `map["B":1h0m0s A:1.5ms]`,
		encodeAverages(nil): "map[]", "[]": "map[]", `{"A": "x"}`: "map[]", "": "map[]",
		`{"A": -5, "B": 9223372036854775807}`: "map[A:0s B:8760h0m0s]",
	} {
		if got := fmt.Sprint(taskdb.DecodeAverages(text)); got != want {
			t.Errorf("%s is read as %s, want %s", text, got, want)
		}
	}
}

func TestAverages(t *testing.T) {
	t.Parallel()
	var a averages
	if now := a.of("JOB"); now != (average{}) {
		t.Errorf("nothing seen: %+v", now)
	}
	for range averageRuns - 1 {
		a.observe("JOB", 10*time.Millisecond)
		a.observe("OTHER", time.Second)
	}
	if a.of("JOB").measured() {
		t.Error("an opinion after too few runs")
	}
	a.observe("JOB", 10*time.Millisecond)
	if now := a.of("JOB"); now.value != 10*time.Millisecond || !now.measured() {
		t.Errorf("%+v", now)
	}
	a.observe("JOB", 210*time.Millisecond)
	if took := a.of("JOB").value; took != 20*time.Millisecond {
		t.Errorf("after one slow run: %s", took)
	}
	for range 500 { // it forgets
		a.observe("JOB", 0)
	}
	if took := a.of("JOB").value; took > time.Microsecond {
		t.Errorf("after many quick ones: %s", took)
	}
}

// A node writes its averages when one has changed by more than a quarter, and not after each run.
func TestAveragesArePublishedWhenTheyHaveChanged(t *testing.T) {
	s := newBench(t)
	w := s.prepare(nil)
	defer w.AwaitEnd()
	for _, step := range []struct {
		took time.Duration // of all runs since the step before
		want string
	}{
		{10 * time.Millisecond, `{"JOB": 10000}`},
		{12 * time.Millisecond, `{"JOB": 10000}`},
		{8 * time.Millisecond, `{"JOB": 10000}`},
		{0, `{"JOB": 0}`},
		{50 * time.Microsecond, `{"JOB": 0}`},
		{20 * time.Millisecond, `{"JOB": 19999}`}, // the average comes near
	} {
		for range 1000 {
			w.averages.observe("JOB", step.took)
		}
		s.OK(w.publish(t.Context()))
		got := enginetest.Ask[string](s.Bench, `SELECT averages::text FROM tasktable.nodes`)
		if got != step.want {
			t.Errorf("after runs of %s it says %s, want %s", step.took, got, step.want)
		}
	}
}

func TestAveragePayloads(t *testing.T) {
	t.Parallel()
	var a averages
	for _, step := range []struct{ saw, want int }{{100, 100}, {250_000, 250_000}, {100, 218_762}, {300_000, 300_000}} {
		if a.observePayload("JOB", step.saw); a.of("JOB").payload != step.want {
			t.Errorf("after payloads of %d bytes: %d, want %d", step.saw, a.of("JOB").payload, step.want)
		}
	}
	for range 200 {
		a.observePayload("JOB", 0)
	}
	if a.of("JOB").payload != 0 || a.of("OTHER").payload != 0 {
		t.Errorf("%d and %d bytes", a.of("JOB").payload, a.of("OTHER").payload)
	}
}
