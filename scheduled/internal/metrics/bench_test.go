package metrics

import (
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// It measures what the metrics cost a task, from its claim to its end: of some 25 µs that it costs this process in all.
func BenchmarkMetrics(b *testing.B) {
	m := New(Config{Types: []string{"JOB"}})
	const tasks = 100
	b.ReportAllocs()
	for b.Loop() { // a batch
		for range tasks {
			m.Of("JOB").Claimed.Inc()
		}
		m.JobTasks.Observe(tasks)
		of := m.Of("JOB")
		m.GateTook.Observe(.001)
		for range tasks {
			of.Started.Inc()
			of.Delay.Observe(.001)
			of.Duration.Observe(.001)
			of.Recorded(taskdb.OutcomeCompleted)
		}
		m.Settled(tasks, time.Millisecond, nil)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/tasks, "ns/task")
}
