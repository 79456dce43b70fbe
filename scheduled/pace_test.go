package scheduled

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
		{"a quick answer counts from when it was asked", 0, 100 * time.Millisecond, 100 * time.Millisecond, gateMost},
		{"a slow one too, and the next read is smaller", 0, 200 * time.Millisecond, 200 * time.Millisecond, gateMost / 2},
		{"one that is too slow is too old", 0, 700 * time.Millisecond, 700 * time.Millisecond, gateMost / 4},
		{"and so is the next", slowFor - time.Second, 700 * time.Millisecond, 700 * time.Millisecond, gateMost / 8},
		{"a link that stays slow is made do with", time.Second, 700 * time.Millisecond, gateValid - slowRest, gateMost / 16},
		{"as long as it is slow", time.Hour, 2 * time.Second, gateValid - slowRest, gateMost / 32},
		{"one that is just young enough", 0, gateValid, gateValid, gateLeast},
		{"slow again: from the beginning", 0, time.Second, time.Second, gateLeast},
		{"quick again: reads grow", 0, time.Millisecond, time.Millisecond, 2 * gateLeast},
	} {
		asked = asked.Add(step.after)
		answered := asked.Add(step.took)
		if age := answered.Sub(p.instant(asked, answered)); age != step.age || p.limit() != step.most {
			t.Errorf("%s: %s old, and the next read has %d", step.what, age, p.limit())
		}
		asked = answered
	}
}
