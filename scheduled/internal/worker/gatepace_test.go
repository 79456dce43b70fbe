package worker

import (
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	t.Parallel()
	p := newPace()
	asked := time.Now()
	for _, step := range []struct {
		what  string
		after time.Duration // since the last answer
		took  time.Duration
		age   time.Duration // of the answer, when it comes
		most  int           // for the next read
	}{
		{
			"a quick answer counts from when it was asked", 0, 100 * time.Millisecond, 100 * time.Millisecond,
			maxGateAsks,
		},
		{
			"a slow one too, and the next read is smaller", 0, 200 * time.Millisecond, 200 * time.Millisecond,
			maxGateAsks / 2,
		},
		{"one that is too slow is too old", 0, 700 * time.Millisecond, 700 * time.Millisecond, maxGateAsks / 4},
		{"and so is the next", slowFor - time.Second, 700 * time.Millisecond, 700 * time.Millisecond, maxGateAsks / 8},
		{
			"a link that stays slow is made do with", time.Second, 700 * time.Millisecond, GateValid - slowRest,
			maxGateAsks / 16,
		},
		{"as long as it is slow", time.Hour, 2 * time.Second, GateValid - slowRest, maxGateAsks / 32},
		{"one that is just young enough", 0, GateValid, GateValid, maxGateAsks / 64},
		{"slow again: from the beginning", 0, time.Second, time.Second, maxGateAsks / 128},
		{"quick again: reads grow", 0, time.Millisecond, time.Millisecond, 2 * (maxGateAsks / 128)},
	} {
		asked = asked.Add(step.after)
		answered := asked.Add(step.took)
		if age := answered.Sub(p.instant(asked, answered)); age != step.age || p.limit() != step.most {
			t.Errorf("%s: %s old, and the next read has %d", step.what, age, p.limit())
		}
		asked = answered
	}
}

func TestPaceIsNeverNothing(t *testing.T) {
	t.Parallel()
	p := newPace()
	for range 20 {
		p.silent()
	}
	if p.limit() != 1 {
		t.Errorf("the next read has %d", p.limit())
	}
}

func TestPacePayloads(t *testing.T) {
	t.Parallel()
	p := newPace()
	for _, step := range []struct{ saw, want int }{{100, 100}, {250_000, 250_000}, {100, 218_762}, {300_000, 300_000}} {
		if p.saw("JOB", step.saw); p.payload("JOB") != step.want {
			t.Errorf("after payloads of %d bytes: %d, want %d", step.saw, p.payload("JOB"), step.want)
		}
	}
	for range 200 {
		p.saw("JOB", 0)
	}
	if p.payload("JOB") != 0 || p.payload("OTHER") != 0 {
		t.Errorf("%d and %d bytes", p.payload("JOB"), p.payload("OTHER"))
	}
}

func TestPartOf(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		due      int
		average  time.Duration
		measured bool
		bytes    int
		limit    int
		want     int
	}{
		"all of a quick type":             {250, 10 * time.Microsecond, true, 100, maxGateAsks, 250},
		"a type that takes no time":       {250, 0, true, 100, maxGateAsks, 250},
		"what begins within the validity": {250, 50 * time.Millisecond, true, 100, maxGateAsks, 5},
		"a slow type":                     {250, time.Minute, true, 100, maxGateAsks, 1},
		"a type without a measure":        {250, 0, false, 100, maxGateAsks, 1},
		"large payloads":                  {250, time.Microsecond, true, 250_000, maxGateAsks, 4},
		"large payloads and slow reads":   {250, time.Microsecond, true, 250_000, 1, 1},
		"slow reads":                      {250, time.Microsecond, true, 100, 7, 7},
	} {
		if got := partOf(test.due, test.average, test.measured, test.bytes, test.limit); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}
