package metrics

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// What the metrics cost a task, from its claim to its end: of some 25 µs that it costs this process in all.
func BenchmarkMetrics(b *testing.B) {
	registered, err := handlers.NewRegistry(handlers.Func("JOB", func(context.Context) error { return nil }))
	if err != nil {
		b.Fatal(err)
	}
	for _, with := range []string{"none", "all"} {
		b.Run(with, func(b *testing.B) {
			var m *Metrics
			if with == "all" {
				m = New(Config{Registerer: prometheus.NewRegistry(), Types: registered.Types()})
			}
			taken := make([]taskdb.ClaimedTask, 100)
			for i := range taken {
				taken[i] = taskdb.ClaimedTask{Type: "JOB", Fence: new(int64(i))}
			}
			b.ReportAllocs()
			for b.Loop() { // a batch of 100 tasks
				m.Claimed(taken)
				m.Carried(len(taken))
				of := m.Of("JOB")
				m.GateAnswered(time.Millisecond)
				for range taken {
					of.Starts(time.Millisecond)
					of.Ran(time.Millisecond)
					of.Recorded(taskdb.OutcomeCompleted)
				}
				m.Settled(len(taken), time.Millisecond, nil)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(taken)), "ns/task")
		})
	}
}
