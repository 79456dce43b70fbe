package maintenance

import (
	"testing"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/session"
	"github.com/tasktable/tasktable/store/storetest"
	"github.com/tasktable/tasktable/store/storetest/leaks"
)

func TestMain(m *testing.M) { storetest.Main(m, leaks.Check) }

type job = enginetest.Job

var noon = enginetest.Noon

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

// onLeader is the configuration of work on a node that leads.
func (b *bench) onLeader() Config {
	return Config{
		Housekeeping: session.NewHousekeeping(b.Pool), Statements: b.Queries, Leads: func() bool { return true }, Log: enginetest.Logger(),
	}
}
