package worker

import (
	"fmt"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

func TestDiffer(t *testing.T) {
	t.Parallel()
	of := func(took time.Duration) map[string]time.Duration { return map[string]time.Duration{"JOB": took} }
	for _, test := range []struct {
		before, now map[string]time.Duration
		want        bool
	}{
		{nil, nil, false},
		{nil, of(0), true},
		{of(0), of(time.Millisecond), false},
		{of(time.Millisecond), of(1250 * time.Microsecond), true},
		{of(time.Second), of(1200 * time.Millisecond), false},
		{of(time.Second), of(700 * time.Millisecond), true},
		{of(time.Second), nil, false},
	} {
		if got := differ(test.before, test.now); got != test.want {
			t.Errorf("%v, then %v: %t", test.before, test.now, got)
		}
	}
}

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
