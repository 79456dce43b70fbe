package cmd

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled"
	"github.com/tasktable/tasktable/store/storetest"
)

// probed is a serve process that answers HTTP, at the address that its log names.
func probed(t *testing.T, variables []string, args ...string) (*process, string) {
	t.Helper()
	p := start(t, append([]string{"TASKTABLE_HTTP_ADDR=127.0.0.1:0"}, variables...),
		append([]string{"serve"}, args...)...)
	_, address, _ := strings.Cut(p.waitFor(`msg="answering HTTP"`), "address=")
	return p, "http://" + strings.TrimSpace(address)
}

// send sends a request with the headers, each of which is a name and a value. It returns the answer.
func send(t *testing.T, client *http.Client, method, url, body string, headers ...string) (code int, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for header := range slices.Chunk(headers, 2) {
		request.Header.Set(header[0], header[1])
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	read, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(read)
}

func get(t *testing.T, url string) (code int, body string) {
	t.Helper()
	return send(t, http.DefaultClient, http.MethodGet, url, "")
}

// scraped waits until the metrics of a node match these patterns, and returns them. A node counts an outcome after it
// has recorded it.
func scraped(t *testing.T, base string, patterns ...string) (metrics string) {
	t.Helper()
	for deadline := time.Now().Add(waitLimit); ; <-time.After(50 * time.Millisecond) {
		_, metrics = get(t, base+"/metrics")
		if !slices.ContainsFunc(patterns, func(one string) bool { return !regexp.MustCompile(one).MatchString(metrics) }) {
			return metrics
		}
		if time.Now().After(deadline) {
			t.Fatalf("the metrics lack one of %q:\n%s", patterns, metrics)
		}
	}
}

// becomes waits until a probe has the code, and returns what it says then.
func becomes(t *testing.T, url string, code int) (said scheduled.Health) {
	t.Helper()
	var got int
	var body string
	for deadline := time.Now().Add(waitLimit); time.Now().Before(deadline); {
		if got, body = get(t, url); got == code {
			if err := json.Unmarshal([]byte(body), &said); err != nil {
				t.Fatalf("%v: %s", err, body)
			}
			return said
		}
		<-time.After(5 * time.Millisecond)
	}
	t.Fatalf("%s: %d, want %d: %s", url, got, code, body)
	return said
}

func TestServeAnswersProbes(t *testing.T) {
	t.Parallel()
	silent := listen(t)
	host, port, err := net.SplitHostPort(silent.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	url := storetest.URL(t)
	p, address := probed(t, []string{"DATABASE_URL=" + url, "TASKTABLE_SMTP_HOST=" + host,
		"TASKTABLE_SMTP_PORT=" + port},
		"--smtp-from=a@example.org", "--shutdown-timeout=1h", "--smtp-timeout=10m")
	if ready := becomes(t, address+"/readyz", http.StatusOK); !ready.OK || len(ready.Checks) != 4 {
		t.Errorf("ready: %+v", ready)
	}
	becomes(t, address+"/livez", http.StatusOK)
	listens := strings.TrimPrefix(address, "http://")
	run(t, nil, "health", "--http-addr", listens).want(t, exitOK)
	run(t, []string{"TASKTABLE_HTTP_ADDR=" + listens}, "health").want(t, exitOK)
	if code, body := get(t, address+"/"); code != http.StatusOK || !strings.Contains(body, "/livez ") ||
		!strings.Contains(body, "/readyz ") {
		t.Errorf("/: %d: %s", code, body)
	}
	if code, body := get(t, address+"/metrics"); code != http.StatusOK || !strings.Contains(body, "\ntasktable_") ||
		!strings.Contains(body, "\ngo_goroutines ") {
		t.Errorf("/metrics: %d: %s", code, body)
	}
	if code, _ := get(t, address+"/debug/pprof/"); code != http.StatusNotFound {
		t.Errorf("another path: %d", code)
	}

	// A mail server that never answers holds the stop up.
	execute(
		t, url, `SELECT tasktable.schedule('{"type":"SEND_EMAIL","email":"b@example.org","subject":"s","body":"b"}')`,
	)
	conn, err := silent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGTERM)
	ready := becomes(t, address+"/readyz", http.StatusServiceUnavailable)
	if check := ready.Checks[0]; check.Name != scheduled.CheckNode || check.OK || check.Reason != "stopping" ||
		!ready.Checks[1].OK {
		t.Errorf("while it stops: %+v", ready)
	}
	becomes(t, address+"/livez", http.StatusOK)
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	p.end().want(t, exitOK, "msg=stopped")
	run(t, nil, "health", "--http-addr", listens).want(t, exitFailed, "the node does not answer")
}

// The database takes the connection and says nothing. A program that calls the API meets a problem, and not a text.
func TestServeAnswersWhileItStarts(t *testing.T) {
	t.Parallel()
	silent := listen(t)
	p, address := probed(t, []string{"DATABASE_URL=postgres://u@" + silent.Addr().String() + "/x"}, "--api")
	if ready := becomes(t, address+"/readyz", http.StatusServiceUnavailable); ready.OK ||
		ready.Checks[0].Reason != "starting" {
		t.Errorf("while it starts: %+v", ready)
	}
	becomes(t, address+"/livez", http.StatusOK)
	run(t, nil, "health", "--http-addr", strings.TrimPrefix(address, "http://")).want(t, exitFailed,
		"not ready: node: starting")
	code, body := get(t, address+"/v1/tasks")
	var told struct{ Code, Detail string }
	if err := json.Unmarshal([]byte(body), &told); err != nil || code != http.StatusServiceUnavailable ||
		told.Code != "starting" || told.Detail == "" {
		t.Errorf("%d %s: %v", code, body, err)
	}
	p.signal(syscall.SIGTERM)
	p.end().want(t, exitInterrupted)
}

// All forms of the document are served, also beside the dashboard, which answers every path that is nobody else's. The
// API refuses a path with // or .. in it, and changes no task.
func TestServeServesTheDocumentsAndPlainPaths(t *testing.T) {
	t.Parallel()
	p, address := probed(t, []string{"DATABASE_URL=" + storetest.URL(t)}, "--api", "--dashboard")
	becomes(t, address+"/readyz", http.StatusOK)
	for path, want := range map[string]string{"/openapi.json": `"openapi":"3.1`, "/openapi-3.0.json": `"openapi":"3.0`,
		"/openapi.yaml": "openapi: 3.1", "/openapi-3.0.yaml": "openapi: 3.0", "/docs": "<html"} {
		if code, body := get(t, address+path); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d %.200s", path, code, body)
		}
	}
	for _, path := range []string{"/v1/tasks/a/../acme-2", "/v1/tasks//pause"} {
		if status, text := rawAnswer(t, strings.TrimPrefix(address, "http://"), "DELETE "+path); status != "404 Not Found" {
			t.Errorf("%s: %s %s", path, status, text)
		}
	}
	p.stop()
}

// The database would be unreachable, exit code 4: it is not asked.
func TestServeRefusesAnAddressThatIsTaken(t *testing.T) {
	t.Parallel()
	taken := listen(t).Addr().String()
	run(t, []string{"DATABASE_URL=postgres://127.0.0.1:1/x"}, "serve", "--http-addr="+taken).want(t, exitFailed,
		"--http-addr (TASKTABLE_HTTP_ADDR): listen tcp "+taken, "address already in use")
}
