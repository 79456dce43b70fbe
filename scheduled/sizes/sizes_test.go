package sizes

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store/storetest"
	"github.com/tasktable/tasktable/store/storetest/leaks"
)

// sizesVariable is "long" for the long form.
const sizesVariable = "TASKTABLE_TEST_SIZES"

const (
	// latest is how late a plain task may start.
	latest = 2 * time.Second
	// usualEmpty is the worst start of the empty run where nothing else keeps the machine busy.
	usualEmpty = 100 * time.Millisecond
)

func TestMain(m *testing.M) { storetest.Main(m, leaks.Check) }

// row is a size and how it is made.
type row struct {
	name        string
	of          string // what the size counts
	short, long int
	before      func(s *site, n int) // makes it before the node starts, and changes the node
	during      func(s *site, n int) // makes it while plain tasks run
}

// result is what was measured beside one size.
type result struct {
	row
	size  int
	plain lateness
	empty time.Duration // the worst start of the empty run meanwhile
	log   []string      // its lines of errors
}

// TestSizes measures how late plain tasks start beside each size.
func TestSizes(t *testing.T) {
	long := os.Getenv(sizesVariable) == "long"
	empty := newSite(t)
	empty.start()
	empty.feed()
	t.Run("beside", func(t *testing.T) {
		for _, r := range rows {
			t.Run(strings.ReplaceAll(r.name, " ", "_"), func(t *testing.T) {
				if !long {
					t.Parallel() // the sizes are small: most of the time they wait
				}
				found := r.measure(t, long, empty)
				if t.Log(found); found.wrong(long) != "" {
					t.Errorf("%s\n%s", found.wrong(long), strings.Join(found.log[:min(len(found.log), 5)], ""))
				}
			})
		}
	})
}

// measure makes a size, and measures the plain tasks beside it.
func (r row) measure(t *testing.T, long bool, empty *site) result {
	size, tasks := r.short, 40
	if long {
		size, tasks = r.long, 300
	}
	s := newSite(t)
	if r.before != nil {
		r.before(s, size)
	}
	began := s.now()
	s.stop = s.start()
	s.feed()
	if r.during != nil {
		r.during(s, size)
	}
	s.more(tasks)
	s.stopFeeding()
	plain := s.settled(plainID, time.Time{})
	plain.Worst = max(plain.Worst, s.others)
	return result{r, size, plain, empty.lateness(plainID, began).Worst, s.log.Lines()}
}

// wrong says why a result is not good. The long form grants the empty run's worst start. In the short form other work
// may keep the machine busy, so the bound grows as the empty run becomes slower.
func (r result) wrong(long bool) string {
	bound := latest + r.empty
	if !long {
		bound = time.Duration(float64(latest) * max(1, float64(r.empty)/float64(usualEmpty)))
	}
	switch {
	case r.plain.Tasks == 0:
		return "no plain task was scheduled"
	case r.plain.Waiting > 0:
		return fmt.Sprintf("%d of %d plain tasks have not started", r.plain.Waiting, r.plain.Tasks)
	case r.plain.Worst > bound:
		return fmt.Sprintf("a plain task started %s late, want at most %s", r.plain.Worst, bound)
	}
	return ""
}

func (r result) String() string {
	return fmt.Sprintf("%-22s %6d %-48s %4d plain: median %5.3f s, worst %6.3f s; empty run %5.3f s, ratio %5.1f; "+
		"%d errors", r.name, r.size, r.of, r.plain.Tasks, r.plain.Median.Seconds(), r.plain.Worst.Seconds(), r.empty.Seconds(),
		float64(r.plain.Worst)/float64(max(r.empty, time.Millisecond)), len(r.log))
}

// A task that does not start is noticed, and so is one that starts late.
func TestLateStartsAreNoticed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.schedule(s.pool, s.plain(1))
	var found result
	enginetest.Eventually(t, enginetest.Patience, "the wait is measured", func() bool {
		found.plain = s.lateness(plainID, time.Time{})
		return found.plain.Worst > latest
	})
	if wrong := found.wrong(true); wrong != "1 of 1 plain tasks have not started" {
		t.Error(wrong)
	}
	s.start()
	found.plain = s.settled(plainID, time.Time{})
	if wrong := found.wrong(true); !strings.HasPrefix(wrong, "a plain task started ") {
		t.Errorf("%q of %+v", wrong, found.plain)
	}
	if late := s.lateness(plainID, s.now()); late.Worst != 0 {
		t.Errorf("%s late, though it started before that counted", late.Worst)
	}
}
