package cmd

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/tasktable/tasktable/store/storetest"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	p, url := probed(t, []string{"DATABASE_URL=" + storetest.URL(t)})
	address := strings.TrimPrefix(url, "http://")
	becomes(t, url+"/readyz", http.StatusOK)
	run(t, nil, "health", "--http-addr", address).want(t, exitOK)
	run(t, []string{"TASKTABLE_HTTP_ADDR=" + address}, "health").want(t, exitOK)
	p.signal(syscall.SIGTERM)
	p.end().want(t, exitOK, "msg=stopped")
	run(t, nil, "health", "--http-addr", address).want(t, exitFailed, "the node does not answer")
}

// The reasons of a node that is not ready stand in the error.
func TestHealthOfANodeThatIsNotReady(t *testing.T) {
	t.Parallel()
	silent := listen(t)
	p, url := probed(t, []string{"DATABASE_URL=postgres://nobody@" + silent.Addr().String() + "/none?sslmode=disable"})
	becomes(t, url+"/readyz", http.StatusServiceUnavailable)
	run(t, nil, "health", "--http-addr", strings.TrimPrefix(url, "http://")).want(t, exitFailed, "not ready: ")
	p.signal(syscall.SIGTERM)
	p.end()
}

func TestHealthOfNoNode(t *testing.T) {
	t.Parallel()
	run(t, nil, "health").want(t, exitUsage, "health needs --http-addr (TASKTABLE_HTTP_ADDR)")
	silent := listen(t) // it takes the connection, and never answers
	run(t, nil, "health", "--http-addr", silent.Addr().String()).want(t, exitFailed, "the node does not answer")
}

func TestDialed(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		":8080": "localhost:8080", "0.0.0.0:8080": "localhost:8080", "[::]:8080": "localhost:8080",
		"127.0.0.1:8080": "127.0.0.1:8080", "[::1]:8080": "[::1]:8080", "node:80": "node:80",
	} {
		if got := dialed(given); got != want {
			t.Errorf("%s: %s, want %s", given, got, want)
		}
	}
}
