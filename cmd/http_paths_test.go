package cmd

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/store/storetest"
)

// rawAnswer sends a request as it stands, and returns the answer.
func rawAnswer(t *testing.T, address, request string) (status, text string) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, request+" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.Status, string(body)
}

// The program does not lead a client from a path with // or .. to the path of another task.
func TestServeCleansNoPath(t *testing.T) {
	t.Parallel()
	api, board := newStartingHandler(refuseCall), newStartingHandler(refusePage)
	api.begin(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "api "+r.URL.EscapedPath())
	}))
	board.begin(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "board "+r.URL.EscapedPath())
	}))
	for _, pages := range []*startingHandler{board, nil} {
		server := httptest.NewServer((&httpServer{}).handler(newMetrics().metricsHandler(), api, pages))
		t.Cleanup(server.Close)
		address := strings.TrimPrefix(server.URL, "http://")
		for _, path := range []string{
			"/v1/tasks/a/../acme-2", "/v1/tasks//pause", "/v1/tasks/./a", "/v1/tasks/a/..", "/v1/../v1/tasks",
			"/v1/tasks/a%2Fb",
			"/v1/%2e%2e/a", "/openapi-3.0.yaml", "/v1", "/v2/tasks", "/v1tasks",
		} {
			if status, text := rawAnswer(t, address, "DELETE "+path); status != "200 OK" || text != "api "+path {
				t.Errorf("%s: %s %s", path, status, text)
			}
		}
		for _, path := range []string{"//v1/tasks/a", "/./v1/tasks/a", "/x/../v1/tasks/a", "/x/../metrics", "//"} {
			status, text := rawAnswer(t, address, "DELETE "+path)
			if pages != nil && text != "board "+path || pages == nil && text != "api "+path {
				t.Errorf("%s: %s %s", path, status, text)
			}
			const withKey = " HTTP/1.1\r\nAuthorization: Bearer tt_a\r\nX-Rest:"
			if _, text := rawAnswer(t, address, "GET /tasks"+withKey); text != "api /tasks" {
				t.Errorf("a path of the dashboard with a key: %s", text)
			}
		}
	}
}

// With --probe-addr the public address tells strangers nothing about the node, and probes do not share its connections.
func TestServeAnswersProbesElsewhere(t *testing.T) {
	t.Parallel()
	p := start(t, []string{"TASKTABLE_HTTP_ADDR=127.0.0.1:0", "TASKTABLE_PROBE_ADDR=127.0.0.1:0",
		"DATABASE_URL=" + storetest.URL(t)}, "serve", "--api")
	_, address, _ := strings.Cut(p.waitFor(`msg="answering probes"`), "address=")
	probes := "http://" + strings.TrimSpace(address)
	_, address, _ = strings.Cut(p.waitFor(`msg="answering HTTP"`), "address=")
	public := "http://" + strings.TrimSpace(address)
	if ready := becomes(t, probes+"/readyz", http.StatusOK); len(ready.Checks) != 4 {
		t.Errorf("ready: %+v", ready)
	}
	if live := becomes(t, probes+"/livez", http.StatusOK); len(live.Checks) == 0 {
		t.Errorf("live: %+v", live)
	}
	if code, body := get(t, probes+"/metrics"); code != http.StatusOK || !strings.Contains(body, "\ntasktable_") {
		t.Errorf("/metrics: %d", code)
	}
	if code, _ := get(t, probes+"/v1/tasks"); code != http.StatusNotFound {
		t.Errorf("the API at the address of probes: %d", code)
	}
	for path, want := range map[string]int{
		"/livez": 200, "/readyz": 200, "/metrics": 404, "/v1/tasks": 401, "/docs": 200,
	} {
		code, body := get(t, public+path)
		if code != want || strings.HasSuffix(path, "z") && body != `{"ok":true,"checks":[]}`+"\n" {
			t.Errorf("public %s: %d %s, want %d", path, code, body, want)
		}
	}
	run(t, []string{"TASKTABLE_PROBE_ADDR=" + strings.TrimPrefix(probes, "http://"), "TASKTABLE_HTTP_ADDR=127.0.0.1:1"},
		"health").want(t, exitOK)
	p.stop()
}
