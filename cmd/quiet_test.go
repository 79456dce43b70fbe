//go:build unix

package cmd

import (
	"context"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/tasktable/tasktable/store/storetest"
)

// The node is alone: what is due stays where it is until the second signal.
func TestServeIsQuietFromSIGTSTPToSIGCONT(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	p, address := probed(t, []string{"DATABASE_URL=" + url, "TASKTABLE_POLL_INTERVAL=1s"})
	p.waitFor("node leads")
	p.signal(syscall.SIGTSTP)
	p.waitFor("node is quiet")
	ask(t, url, "SELECT queues::text || types::text FROM tasktable.nodes", "{}{}")
	if got := run(t, []string{"DATABASE_URL=" + url}, "nodes"); !strings.Contains(got.stdout, "quiet") {
		t.Errorf("nodes: %+v", got)
	}
	execute(t, url, `SELECT tasktable.schedule('{"type":"LOG","message":"hi"}', id => 'hi')`)
	if ready := becomes(t, address+"/readyz", http.StatusOK); !strings.HasPrefix(ready.Checks[0].Reason, "quiet") {
		t.Errorf("while it is quiet: %+v", ready)
	}
	becomes(t, address+"/livez", http.StatusOK)
	ask(t, url, "SELECT id || ' ' || has_node FROM tasktable.late_tasks WHERE late_by > interval '2 seconds'",
		"hi false")
	ask(t, url, "SELECT status || ' ' || attempt FROM tasktable.scheduled_tasks", "QUEUED 0")
	p.signal(syscall.SIGCONT)
	ask(t, url, "SELECT status || ' ' || attempt FROM tasktable.scheduled_tasks", "COMPLETED 1")
	p.signal(syscall.SIGTSTP)
	p.waitFor("node is quiet: ")
	p.stop("msg=stopped")
}

func TestObeyTellsTheSignalsApart(t *testing.T) {
	signals, told := make(chan os.Signal), make(chan string)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		followSignals(ctx, signals, func() { told <- "quiet" }, func() { told <- "unquiet" })
	}()
	for _, want := range []string{"quiet", "unquiet", "unquiet", "quiet"} {
		signals <- map[string]os.Signal{"quiet": syscall.SIGTSTP, "unquiet": syscall.SIGCONT}[want]
		if got := <-told; got != want {
			t.Errorf("%s: %s", want, got)
		}
	}
	cancel()
	await(t, ended)
}
