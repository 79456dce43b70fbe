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
		for _, step := range []struct {
			name        string
			happens     func()
			ready, live string
		}{
			{"before Run", func() {}, "node: Run has not been called, 0s; session: Run has not been called, 0s; " +
				"database: Run has not been called, 0s; listener: Run has not been called, 0s", ""},
			{
				"an hour before Run", func() { time.Sleep(time.Hour) },
				"node: Run has not been called, 1h0m0s; session: Run has not been called, 1h0m0s; " +
					"database: Run has not been called, 1h0m0s; listener: Run has not been called, 1h0m0s",
				"",
			},
			{
				"Run", state.starts,
				"node: starting, 0s; session: not connected yet, 0s; database: not connected yet, 0s; " +
					"listener: not connected yet, 0s",
				"",
			},
			{
				"it listens", func() { state.listens(true) },
				"node: starting, 0s; session: not connected yet, 0s; database: not connected yet, 0s", "",
			},
			{"it is up", state.begins, "", ""},
			{
				"no more is listened", func() { state.listens(false); time.Sleep(time.Second) },
				"listener: not listening; connecting again, 1s", "",
			},
			{
				"it is no new thing", func() { state.listens(false); time.Sleep(time.Second) },
				"listener: not listening; connecting again, 2s", "",
			},
			{"it listens again", func() { state.listens(true) }, "", ""},
			{"the pool answers", func() { state.hears(nil) }, "", ""},
			{"a statement fails", func() { time.Sleep(time.Second); state.hears(context.DeadlineExceeded) }, "", ""},
			{"just not too long ago", func() { time.Sleep(poolLate - time.Second) }, "", ""},
			{
				"nobody has asked for too long", func() { time.Sleep(time.Second) },
				"database: the engine's pool was not answered for more than 15s, 16s", "",
			},
			{"it answers", func() { state.hears(nil); state.turns() }, "", ""},
			{
				"the session is lost", state.loses,
				"session: lost touch with the database; beginning again, 0s; database: lost touch with the database; " +
					"beginning again, 0s; " +
					"listener: lost touch with the database; beginning again, 0s",
				"",
			},
			{
				"and with it the listener", func() { state.listens(false) },
				"session: lost touch with the database; beginning again, 0s; " +
					"database: lost touch with the database; beginning again, 0s; " +
					"listener: lost touch with the database; beginning again, 0s",
				"",
			},
			{
				"the loop hangs, but not yet too long",
				func() { state.begins(); state.listens(true); time.Sleep(loopSilent); state.hears(nil) }, "", "",
			},
			{
				"the loop hangs", func() { time.Sleep(time.Second) }, "",
				"loop: no turn for more than 1m0s: something that the node called does not return, 1m1s",
			},
			{"the loop turns", state.turns, "", ""},
			{"it stops", state.stops, "node: stopping, 0s", ""},
			{"a new session is up only then", state.begins, "node: stopping, 0s", ""},
			{
				"it has ended", state.ends,
				"node: Run has ended, 0s; session: Run has ended, 0s; database: Run has ended, 0s; " +
					"listener: Run has ended, 0s",
				"",
			},
			{
				"it was told to stop too late", state.stops,
				"node: Run has ended, 0s; session: Run has ended, 0s; database: Run has ended, 0s; " +
					"listener: Run has ended, 0s",
				"",
			},
			{
				"long after", func() { time.Sleep(time.Hour) },
				"node: Run has ended, 1h0m0s; session: Run has ended, 1h0m0s; database: Run has ended, 1h0m0s; " +
					"listener: Run has ended, 1h0m0s",
				"",
			},
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
	up.health.starts()
	up.health.begins()
	up.health.listens(true)
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
