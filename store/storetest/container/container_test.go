package container

import (
	"testing"
	"time"

	"github.com/tasktable/tasktable/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

func TestDockerIsAskedQuickly(t *testing.T) {
	t.Parallel()
	before := time.Now()
	dockerAnswers(t.Context())
	if took := time.Since(before); took > dockerLimit+3*time.Second {
		t.Fatalf("took %v, want at most about %v", took, dockerLimit)
	}
}
