package torture

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	runNode()
	goleak.VerifyTestMain(m)
}
