package worker

import (
	"testing"
	"time"
)

func TestStint(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	for name, test := range map[string]struct {
		served      time.Duration
		begun, left int
		want        bool
	}{
		"nothing has begun: the gate is slow": {time.Minute, 0, 250, true},
		"the rest takes a second":             {2 * time.Second, 200, 100, true},
		"the rest takes longer":               {2 * time.Second, 200, 101, false},
		"the first one hangs":                 {time.Second, 1, 249, false},
		"one is left after a quick one":       {time.Millisecond, 1, 1, true},
	} {
		if got := (stint{begin, test.begun}).getsOn(begin.Add(test.served), test.left); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
