package scheduled

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
			var m *metrics
			if with == "all" {
				m = newMetrics(Config{Metrics: prometheus.NewRegistry(), Handlers: registered})
			}
			taken := make([]taskdb.ClaimedTask, 100)
			for i := range taken {
				taken[i] = taskdb.ClaimedTask{Type: "JOB", Fence: new(int64(i))}
			}
			b.ReportAllocs()
			for b.Loop() { // a batch of 100 tasks
				m.took(taken)
				m.carried(len(taken))
				of := m.of("JOB")
				m.gateAnswered(time.Millisecond)
				for range taken {
					of.starts(time.Millisecond)
					of.ran(time.Millisecond)
					of.recorded(taskdb.OutcomeCompleted)
				}
				m.settled(len(taken), time.Millisecond, nil)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(taken)), "ns/task")
		})
	}
}
