package scheduled

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// soakVariable says for how long TestSoak goes on; without it, for some seconds.
const soakVariable = "TASKTABLE_TEST_SOAK"

const (
	soakSamples = 24
	soakEvery   = 20 * time.Millisecond // ten tasks each time: 500 a second
	soakBatch   = 10
)

// soakSample is what must not grow.
type soakSample struct {
	heap       uint64 // bytes in use after a collection
	goroutines int
	dead       int           // versions of rows that vacuum has yet to remove
	look       time.Duration // a look at all lanes
	delay      time.Duration // from due to start, 99 of 100 since the sample before
}

// TestSoak works a steady load off, and compares the last third of the time with the one before: memory, goroutines,
// dead rows, looks and delays stay as they are.
func TestSoak(t *testing.T) {
	length := 3 * time.Second // and not beside other tests of this package, whose memory it would count
	if text := os.Getenv(soakVariable); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatalf("%s: %v", soakVariable, err)
		}
	}
	s := benchOf(t)
	s.node(nil, handlers.Handle(func(context.Context, *handlers.Task[enginetest.Job]) error { return nil }))
	stop := s.soakLoad()
	var samples []soakSample
	ticker := time.NewTicker(length / soakSamples)
	defer ticker.Stop()
	since := time.Now()
	for range soakSamples {
		<-ticker.C
		samples = append(samples, s.soakSample(since))
		since = time.Now()
	}
	n := stop()
	s.SeesWithin(30*time.Second, "all are completed",
		`SELECT count(*) = $1 FROM tasktable.scheduled_tasks WHERE status = 'COMPLETED'`, n)
	third := soakSamples / 3
	before, after := worst(samples[third:2*third]), worst(samples[2*third:])
	t.Logf("%d tasks in %s; the middle third at worst %+v, the last %+v", n, length, before, after)
	if after.heap > before.heap*5/4+8<<20 {
		t.Errorf("the heap grows: %d bytes, then %d", before.heap, after.heap)
	}
	if after.goroutines > before.goroutines+before.goroutines/4+10 {
		t.Errorf("goroutines grow: %d, then %d", before.goroutines, after.goroutines)
	}
	if os.Getenv(soakVariable) == "" {
		return // too short for what vacuum does, and too noisy for times
	}
	if after.dead > 2*before.dead+10000 {
		t.Errorf("dead rows grow: %d, then %d", before.dead, after.dead)
	}
	if after.look > 2*before.look+5*time.Millisecond {
		t.Errorf("looks take longer: %s, then %s", before.look, after.look)
	}
	if after.delay > 2*before.delay+50*time.Millisecond {
		t.Errorf("delays grow: %s, then %s", before.delay, after.delay)
	}
}

// worst is the greatest of each but for single outliers, of which a shared machine has some: the second greatest.
func worst(samples []soakSample) (w soakSample) {
	second := func(of func(soakSample) int64) int64 {
		values := make([]int64, len(samples))
		for i, one := range samples {
			values[i] = of(one)
		}
		slices.Sort(values)
		return values[len(values)-2]
	}
	w.heap = uint64(second(func(s soakSample) int64 { return int64(s.heap) }))
	w.goroutines = int(second(func(s soakSample) int64 { return int64(s.goroutines) }))
	w.dead = int(second(func(s soakSample) int64 { return int64(s.dead) }))
	w.look = time.Duration(second(func(s soakSample) int64 { return int64(s.look) }))
	w.delay = time.Duration(second(func(s soakSample) int64 { return int64(s.delay) }))
	return w
}

const (
	soakDeadSQL  = `SELECT coalesce(sum(n_dead_tup), 0)::int FROM pg_stat_user_tables WHERE schemaname = 'tasktable'`
	soakDelaySQL = `SELECT coalesce(1000000 * extract(epoch
		FROM percentile_disc(0.99) WITHIN GROUP (ORDER BY started_at - due_at)), 0)::int
		FROM tasktable.scheduled_task_executions WHERE finished_at >= $1`
)

func (s *bench) soakSample(since time.Time) (sample soakSample) {
	s.T.Helper()
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	began := time.Now()
	schema, err := store.NewSchema(store.DefaultSchema)
	s.OK(err)
	s.Did((taskdb.Queries{Schema: schema}).Lanes(s.T.Context(), s.Pool, nil))
	look := time.Since(began)
	return soakSample{
		heap: memory.HeapAlloc, goroutines: runtime.NumGoroutine(), dead: s.Count(soakDeadSQL), look: look,
		delay: time.Duration(s.Count(soakDelaySQL, since)) * time.Microsecond,
	}
}

// soakLoad schedules tasks at a steady rate, half of them a second ahead, until it is stopped; stop returns how many.
func (s *bench) soakLoad() (stop func() int) {
	ending := make(chan struct{})
	var wg sync.WaitGroup
	n := 0
	wg.Go(func() {
		ticker := time.NewTicker(soakEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ending:
				return
			case <-ticker.C:
			}
			var some []store.Task
			for i := range soakBatch {
				some = append(some, store.Task{
					Payload: enginetest.Job{Name: fmt.Sprint(n + i)},
					At:      time.Now().Add(time.Duration(i%2) * time.Second),
				})
			}
			if _, err := s.Tasks.ScheduleMany(s.T.Context(), s.Pool, some); err != nil {
				s.T.Error(err)
				return
			}
			n += soakBatch
		}
	})
	return sync.OnceValue(func() int {
		close(ending)
		wg.Wait()
		return n
	})
}
