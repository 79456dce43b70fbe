package leader

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/failures"
	"github.com/tasktable/tasktable/scheduled/internal/metrics"
	"github.com/tasktable/tasktable/scheduled/internal/quiet"
	"github.com/tasktable/tasktable/scheduled/internal/riverjobs"
	"github.com/tasktable/tasktable/scheduled/internal/session"
	"github.com/tasktable/tasktable/store/storetest"
	"github.com/tasktable/tasktable/store/storetest/leaks"
)

func TestMain(m *testing.M) { storetest.Main(m, leaks.Check) }

// bench is a database on which a test runs the engine's statements at chosen times, without a node.
type bench struct{ *enginetest.Bench }

// newBench makes a bench for a test that runs beside others.
func newBench(t *testing.T) *bench {
	t.Helper()
	t.Parallel()
	return benchOf(t)
}

// benchOf is newBench for a test that has said so before, or runs alone.
func benchOf(t *testing.T) *bench {
	t.Helper()
	return &bench{enginetest.New(t)}
}

// candidate is a node that can be elected, and runs nothing. It works the queue default, and the types JOB and QUICK.
func (b *bench) candidate(change ...func(*Config, *session.Registration)) *Leader {
	b.T.Helper()
	config := Config{
		Pool: b.Pool, Housekeeping: session.NewHousekeeping(b.Pool), Statements: b.Queries, Log: enginetest.Logger(),
		StartAllowance: time.Minute, Quiet: quiet.New(),
		Metrics:  metrics.New(metrics.Config{}),
		Failures: failures.New(failures.Config{Log: enginetest.Logger()}),
		Averages: func() map[string]time.Duration { return nil },
	}
	node := session.Registration{
		Queues: `{"default": 100}`, Types: []string{"JOB", "QUICK"}, TypeSlots: "{}", Transactional: []string{},
		MayLead: true,
	}
	for _, change := range change {
		change(&config, &node)
	}
	life, err := session.Open(b.T.Context(), session.Config{
		Connect: func(ctx context.Context) (*pgx.Conn, error) {
			return pgx.ConnectConfig(ctx, b.Pool.Config().ConnConfig)
		},
		Schema: b.Schema, Node: node,
	})
	b.OK(err)
	config.Session = life
	config.River, err = riverjobs.NewClient(riverjobs.ClientConfig{
		Pool: b.Pool, Statements: b.Queries, Number: life.Number, Clock: life.Clock, Logger: config.Log,
		Log: config.Log,
	})
	b.OK(err)
	l := New(config)
	b.T.Cleanup(func() {
		l.endTerm(context.Background())
		life.Close(context.Background())
	})
	if _, err := life.Conn.Exec(b.T.Context(), "SET idle_session_timeout = 0"); err != nil { // nobody pings
		b.T.Fatal(err)
	}
	return l
}

// leads has a node begin a term.
func (b *bench) leads(l *Leader) {
	b.T.Helper()
	if leads, err := l.elect(b.T.Context(), true); !leads || err != nil {
		b.T.Fatalf("node %d leads: %t, %v", l.session.Number, leads, err)
	}
}

// elected is a candidate that leads and has looked at everything.
func (b *bench) elected(change ...func(*Config, *session.Registration)) *Leader {
	b.T.Helper()
	l := b.candidate(change...)
	b.leads(l)
	b.tick(l)
	b.tick(l) // the look that follows knows the lanes of the nodes
	return l
}

// tick has a leader look, and fails the test if that fails.
func (b *bench) tick(l *Leader) {
	b.T.Helper()
	b.Did(l.tick(b.T.Context()))
}

// slots changes the slots of a candidate's queue.
func slots(n int) func(*Config, *session.Registration) {
	return func(_ *Config, node *session.Registration) { node.Queues = fmt.Sprintf(`{"default": %d}`, n) }
}

// states lists the tasks with their statuses.
func (b *bench) states() string {
	b.T.Helper()
	return enginetest.Ask[string](b.Bench, `SELECT string_agg(id || ' ' || status, ', ' ORDER BY id)
		FROM tasktable.scheduled_tasks`)
}
