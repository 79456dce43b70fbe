package container

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/testcontainers/testcontainers-go"

	"github.com/tasktable/tasktable/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

func TestDockerIsAskedQuickly(t *testing.T) {
	t.Parallel()
	before := time.Now()
	dockerAnswers(t.Context())
	if took := time.Since(before); took > dockerLimit+10*time.Second {
		t.Fatalf("took %v, want at most about %v", took, dockerLimit)
	}
}

func TestReachable(t *testing.T) {
	t.Parallel()
	if err := reachable(t.Context(), "127.0.0.1"); err != nil {
		t.Error("this machine is not reachable:", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	err = reachable(late, "127.0.0.1") // no packet is sent, as to an address that nobody has
	if err == nil || !strings.Contains(err.Error(), "TESTCONTAINERS_HOST_OVERRIDE") {
		t.Errorf("a host that does not answer: %v, want the variable to set", err)
	}
}

// It needs a daemon that has the image, so that a test asks no registry for it: docker pull postgres:17-alpine.
func TestContainer(t *testing.T) {
	t.Parallel()
	if !dockerAnswers(t.Context()) {
		t.Skip("no Docker daemon answers")
	}
	if !hasImage(t) {
		t.Skip("the Docker daemon does not have " + image)
	}
	if err := hostAnswers(t.Context()); err != nil {
		t.Fatal(err)
	}
	base, stop, err := startContainer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), base.String())
	if err != nil {
		t.Fatal(err)
	}
	var fsync string
	if err := conn.QueryRow(t.Context(), "SHOW fsync").Scan(&fsync); err != nil || fsync != "off" {
		t.Errorf("fsync is %q (%v), want off", fsync, err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if conn, err := net.DialTimeout("tcp", base.Host, time.Second); err == nil {
		_ = conn.Close()
		t.Error("the container is stopped, and its port answers")
	}
}

func hasImage(t *testing.T) bool {
	t.Helper()
	docker, err := testcontainers.NewDockerClientWithOpts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = docker.Close() }()
	_, err = docker.ImageInspect(t.Context(), image)
	return err == nil
}
