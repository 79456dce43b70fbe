package slots

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// desk is slots with all who ask for one, by queue, in the order in which they asked.
type desk struct {
	*Slots
	asked map[string][]*Request
}

func newDesk(shared bool) *desk {
	return &desk{New(map[string]int{"critical": 6, "default": 3, "low": 1}, shared), map[string][]*Request{}}
}

func (d *desk) ask(queue string, n int) {
	for range n {
		d.asked[queue] = append(d.asked[queue], d.Request(queue))
	}
}

func granted(r *Request) bool {
	select {
	case <-r.Granted:
		return true
	default:
		return false
	}
}

// held counts those who have a slot.
func (d *desk) held(queue string) (n int) {
	for _, r := range d.asked[queue] {
		if granted(r) {
			n++
		}
	}
	return n
}

// end gives back the slots of those who got theirs first.
func (d *desk) end(queue string, n int) {
	for range n {
		i := slices.IndexFunc(d.asked[queue], granted)
		r := d.asked[queue][i]
		d.asked[queue] = slices.Delete(d.asked[queue], i, i+1)
		d.Release(r)
	}
}

func (d *desk) String() string {
	var text []string
	for _, queue := range slices.Sorted(maps.Keys(d.asked)) {
		text = append(text, fmt.Sprint(queue, " ", d.held(queue)))
	}
	return strings.Join(text, ", ")
}

// Each queue has its own slots, exactly, whatever the others do.
func TestSlotsApart(t *testing.T) {
	t.Parallel()
	d := newDesk(false)
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() { d.ask("default", 5) }, "default 3"},
		{func() { d.ask("low", 5) }, "default 3, low 1"},
		{func() { d.ask("critical", 6) }, "critical 6, default 3, low 1"},
		{func() { d.end("critical", 6) }, "critical 0, default 3, low 1"},
		{func() { d.end("default", 1) }, "critical 0, default 3, low 1"},
		{func() { d.end("default", 3) }, "critical 0, default 1, low 1"},
		{func() { d.end("low", 4) }, "critical 0, default 1, low 1"},
	} {
		if step.do(); d.String() != step.want {
			t.Errorf("%s, want %s", d, step.want)
		}
	}
}

// Shared slots serve whoever asks; under load each queue comes to its weight, and gets its own back first.
func TestSlotsShared(t *testing.T) {
	t.Parallel()
	d := newDesk(true)
	for _, step := range []struct {
		what string
		do   func()
		want string
	}{
		{"idle slots of the others serve the low one", func() { d.ask("low", 12) }, "low 10"},
		{
			"all are taken: the others wait", func() { d.ask("critical", 20); d.ask("default", 20) },
			"critical 0, default 0, low 10",
		},
		// What falls free goes to whoever uses the least of its own.
		{"two are given back", func() { d.end("low", 2) }, "critical 1, default 1, low 8"},
		{"another", func() { d.end("low", 1) }, "critical 2, default 1, low 7"},
		{"all but its own", func() { d.end("low", 6) }, "critical 6, default 3, low 1"},
		{
			"each goes on with its own", func() { d.end("critical", 3); d.end("default", 2); d.end("low", 1) },
			"critical 6, default 3, low 1",
		},
	} {
		if step.do(); d.String() != step.want {
			t.Errorf("%s: %s, want %s", step.what, d, step.want)
		}
	}
	// When critical has nothing more to do, the others share its slots, 3 to 1.
	d.drain("critical")
	d.end("critical", 6)
	for range 30 {
		d.ask("default", 1)
		d.end("default", 1)
		d.ask("low", 1)
		d.end("low", 1)
	}
	if got := d.String(); got != "critical 0, default 7, low 3" && got != "critical 0, default 8, low 2" {
		t.Errorf("without critical: %s", got)
	}
	// Critical comes back, and has its six after as many have ended.
	d.ask("critical", 6)
	for i := range 6 {
		if d.held("default") > 3 {
			d.end("default", 1)
		} else {
			d.end("low", 1)
		}
		if got := d.held("critical"); got != i+1 {
			t.Errorf("critical has %d slots after %d have ended: %s", got, i+1, d)
		}
	}
	if got := d.String(); got != "critical 6, default 3, low 1" {
		t.Errorf("in the end: %s", got)
	}
}

// drain takes back the requests of a queue that have not been granted.
func (d *desk) drain(queue string) {
	for _, r := range d.asked[queue] {
		if !granted(r) {
			d.Release(r)
		}
	}
	d.asked[queue] = slices.DeleteFunc(d.asked[queue], func(r *Request) bool { return !granted(r) })
}

// Whoever gives up their place in the line is not given a slot, and keeps none from those behind.
func TestSlotsGivenUp(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		d := newDesk(shared)
		d.ask("low", 1)
		d.ask("default", 9)
		d.ask("low", 2)
		first, second := d.asked["low"][1], d.asked["low"][2]
		if granted(first) || granted(second) {
			t.Fatal("granted beyond the slots")
		}
		d.Release(first)
		d.Release(d.asked["low"][0])
		if granted(first) || !granted(second) {
			t.Errorf("shared %v: the one who gave up: %v, the one behind: %v", shared, granted(first), granted(second))
		}
		d.Release(second)
		d.drain("default")
		d.end("default", d.held("default"))
		if d.used != 0 || d.queues["low"].used != 0 || len(d.queues["low"].waiting) != 0 {
			t.Errorf("shared %v: in use %d, %+v", shared, d.used, d.queues["low"])
		}
	}
}

// Within a queue, first come, first served.
func TestSlotsInOrder(t *testing.T) {
	t.Parallel()
	s := New(map[string]int{"": 1}, false)
	requests := []*Request{s.Request(""), s.Request(""), s.Request("")}
	for i, r := range requests {
		for j, other := range requests {
			if granted(other) != (j <= i) {
				t.Fatalf("when it is the turn of %d: %d granted: %v", i, j, granted(other))
			}
		}
		s.Release(r)
	}
}

// Many at once ask, wait, give up and release: never more hold a slot than there are, nobody is forgotten, and in the
// end all slots are free.
func TestSlotsUnderLoad(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		sizes := map[string]int{"critical": 6, "default": 3, "low": 1}
		s := New(sizes, shared)
		var mu sync.Mutex
		held, most := map[string]int{}, map[string]int{}
		count := func(queue string, by int) {
			mu.Lock()
			defer mu.Unlock()
			held[queue] += by
			held["all"] += by
			for _, key := range []string{queue, "all"} {
				most[key] = max(most[key], held[key])
			}
		}
		var wg sync.WaitGroup
		for worker := range 60 {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(3, uint64(worker)))
				queue := []string{"critical", "default", "low"}[worker%3]
				for range 100 {
					r := s.Request(queue)
					if random.IntN(10) == 0 { // gives up, or has it already
						s.Release(r)
						continue
					}
					select {
					case <-r.Granted:
					case <-time.After(30 * time.Second):
						t.Errorf("forgotten in queue %s", queue)
						return
					}
					count(queue, 1)
					for range random.IntN(50) {
						_ = random.Uint64()
					}
					count(queue, -1)
					s.Release(r)
				}
			})
		}
		wg.Wait()
		if most["all"] > 10 {
			t.Errorf("shared %v: at most %v held at once", shared, most)
		}
		for queue, size := range sizes {
			if !shared && most[queue] > size {
				t.Errorf("at most %d of %s held at once", most[queue], queue)
			}
			if q := s.queues[queue]; q.used != 0 || len(q.waiting) != 0 {
				t.Errorf("shared %v: %d in use, %d waiting in the end", shared, q.used, len(q.waiting))
			}
		}
		if s.used != 0 {
			t.Errorf("shared %v: %d in use in the end", shared, s.used)
		}
	}
}

// In a strict order, the first queue gets all that falls free. The queues that are not in it share the rest.
func TestSlotsStrict(t *testing.T) {
	t.Parallel()
	d := &desk{New(map[string]int{"critical": 1, "default": 3, "low": 3, "other": 3}, true, "critical", "default"),
		map[string][]*Request{}}
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() { d.ask("low", 10) }, "low 10"},
		{
			func() { d.ask("other", 2); d.ask("default", 4); d.ask("critical", 3); d.end("low", 4) },
			"critical 3, default 1, low 6, other 0",
		},
		{func() { d.end("low", 4) }, "critical 3, default 4, low 2, other 1"},
		{func() { d.ask("critical", 3); d.end("default", 3); d.end("critical", 1) },
			"critical 5, default 1, low 2, other 2"},
	} {
		if step.do(); d.String() != step.want {
			t.Errorf("%s, want %s", d, step.want)
		}
	}
}
