package scheduled

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/quiet"
)

// said is a health in a line: the checks that are not OK, with their reasons and how long it has been so.
func said(h Health) string {
	var words []string
	for _, check := range h.Checks {
		if !check.OK {
			words = append(words, check.Name+": "+check.Reason+", "+time.Since(check.Since).String())
		}
	}
	if h.OK != (len(words) == 0) {
		return "contradicts itself"
	}
	return strings.Join(words, "; ")
}

func TestHealthFollowsTheNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &Node{health: newHealthState(), quiet: quiet.New()}
		state := n.health
		all := func(why string) string {
			var words []string
			for _, name := range []string{CheckNode, CheckSession, CheckDatabase, CheckListener} {
				words = append(words, name+": "+why)
			}
			return strings.Join(words, "; ")
		}
		const lost = "lost touch with the database; beginning again, 0s"
		for _, step := range []struct {
			name        string
			happens     func()
			ready, live string
		}{
			{"before Run", func() {}, all("Run has not been called, 0s"), ""},
			{"an hour before Run", func() { time.Sleep(time.Hour) }, all("Run has not been called, 1h0m0s"), ""},
			{"Run", func() {
				state.note(reasonStarting, CheckNode, CheckSession, CheckDatabase, CheckListener)
				state.turns()
			}, all("starting, 0s"), ""},
			{"it listens", func() { state.note("", CheckListener) },
				"node: starting, 0s; session: starting, 0s; database: starting, 0s", ""},
			{"it is up", func() { state.hears(nil); state.note("", CheckNode, CheckSession, CheckDatabase) }, "", ""},
			{"no more is listened", func() { state.note(reasonDeaf, CheckListener); time.Sleep(time.Second) },
				"listener: not listening; connecting again, 1s", ""},
			{"it is no new thing", func() { state.note(reasonDeaf, CheckListener); time.Sleep(time.Second) },
				"listener: not listening; connecting again, 2s", ""},
			{"it listens again", func() { state.note("", CheckListener) }, "", ""},
			{"the pool answers", func() { state.hears(nil) }, "", ""},
			{"a statement fails", func() { time.Sleep(time.Second); state.hears(context.DeadlineExceeded) }, "", ""},
			{"just not too long ago", func() { time.Sleep(poolLate - time.Second) }, "", ""},
			{"nobody has asked for too long", func() { time.Sleep(time.Second) },
				"database: the engine's pool was not answered for more than 15s, 16s", ""},
			{"it answers", func() { state.hears(nil); state.turns() }, "", ""},
			{"the session is lost", func() { state.note(reasonLost, CheckSession, CheckDatabase, CheckListener) },
				"session: " + lost + "; database: " + lost + "; listener: " + lost, ""},
			{"the loop hangs, but not yet too long", func() {
				state.note("", CheckNode, CheckSession, CheckDatabase, CheckListener)
				time.Sleep(loopSilent)
				state.hears(nil)
			}, "", ""},
			{"the loop hangs", func() { time.Sleep(time.Second) }, "",
				"loop: no turn for more than 1m0s: something that the node called does not return, 1m1s"},
			{"the loop turns", state.turns, "", ""},
			{"slots are lost", func() { state.stuck("queue default") }, "", "slots: queue default, 0s"},
			{"it stops", func() { state.note(reasonStopping, CheckNode) }, "node: stopping, 0s",
				"slots: queue default, 0s"},
			{"it has ended", func() { state.rests(reasonEnded) }, all("Run has ended, 0s"), ""},
			{"long after", func() { time.Sleep(time.Hour) }, all("Run has ended, 1h0m0s"), ""},
		} {
			step.happens()
			if ready, live := said(n.Ready()), said(n.Live()); ready != step.ready || live != step.live {
				t.Errorf("%s:\nready %q\nwant  %q\nlive %q\nwant %q", step.name, ready, step.ready, live, step.live)
			}
		}
	})
}

func TestHealthOverHTTP(t *testing.T) {
	t.Parallel()
	n := &Node{health: newHealthState(), quiet: quiet.New()}
	up := &Node{health: newHealthState(), quiet: quiet.New()}
	up.health.hears(nil)
	up.health.note("", CheckNode, CheckSession, CheckDatabase, CheckListener)
	for _, test := range []struct {
		name    string
		handler http.Handler
		method  string
		code    int
	}{
		{"ready", up.ReadyHandler(), http.MethodGet, 200},
		{"ready, without a body", up.ReadyHandler(), http.MethodHead, 200},
		{"not ready", n.ReadyHandler(), http.MethodGet, 503},
		{"not ready, without a body", n.ReadyHandler(), http.MethodHead, 503},
		{"live", n.LiveHandler(), http.MethodGet, 200},
		{"a wrong method", up.ReadyHandler(), http.MethodPost, 405},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(test.handler)
			defer server.Close()
			request, err := http.NewRequestWithContext(t.Context(), test.method, server.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = response.Body.Close() }()
			if response.StatusCode != test.code {
				t.Fatalf("code %d, want %d", response.StatusCode, test.code)
			}
			if test.code == http.StatusMethodNotAllowed {
				if allow := response.Header.Get("Allow"); allow != "GET, HEAD" {
					t.Errorf("Allow: %s", allow)
				}
				return
			}
			if kind, cached := response.Header.Get("Content-Type"),
				response.Header.Get("Cache-Control"); kind != "application/json" || cached != "no-store" {
				t.Errorf("Content-Type: %s, Cache-Control: %s", kind, cached)
			}
			if test.method == http.MethodHead {
				return
			}
			var got Health
			if err := json.NewDecoder(response.Body).Decode(&got); err != nil || got.OK != (test.code == 200) ||
				len(got.Checks) == 0 {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}
