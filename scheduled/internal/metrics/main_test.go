package metrics

import (
	"testing"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store/storetest"
	"github.com/tasktable/tasktable/store/storetest/leaks"
)

func TestMain(m *testing.M) { storetest.Main(m, leaks.Check) }

// bench is a database on which a test runs the engine's statements at chosen times, without a node.
type bench struct{ *enginetest.Bench }

func newBench(t *testing.T) *bench {
	t.Helper()
	t.Parallel()
	return &bench{enginetest.New(t)}
}
