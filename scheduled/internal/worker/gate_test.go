package worker

import (
	"testing"
	"time"
)

func TestPartOf(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		due     int
		average time.Duration
		runs    int
		bytes   int
		limit   int
		want    int
	}{
		"all of a quick type":             {250, 10 * time.Microsecond, averageRuns, 100, maxGateAsks, 250},
		"a type that takes no time":       {250, 0, averageRuns, 100, maxGateAsks, 250},
		"what begins within the validity": {250, 50 * time.Millisecond, averageRuns, 100, maxGateAsks, 5},
		"a slow type":                     {250, time.Minute, averageRuns, 100, maxGateAsks, 1},
		"a type without a measure":        {250, 0, averageRuns - 1, 100, maxGateAsks, 1},
		"large payloads":                  {250, time.Microsecond, averageRuns, 250_000, maxGateAsks, 4},
		"large payloads and slow reads":   {250, time.Microsecond, averageRuns, 250_000, 1, 1},
		"slow reads":                      {250, time.Microsecond, averageRuns, 100, 7, 7},
	} {
		if got := partOf(test.due, average{test.average, test.runs, test.bytes}, test.limit); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}
