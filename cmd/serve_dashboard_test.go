package cmd

import (
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/scheduled/dashboard"
	"github.com/tasktable/tasktable/store/storetest"
)

// Somebody signs in at / and sees why a task does not run. Without a session no page has data.
func TestServeDashboard(t *testing.T) {
	t.Parallel()
	variables := []string{"DATABASE_URL=" + storetest.URL(t)}
	made := run(t, variables, "keys", "create", "ann", "--scope", "read")
	made.want(t, exitOK)
	secret := strings.TrimSpace(made.stdout)
	run(t, variables, "tasks", "schedule", "--type=LOG", "--id=mail-42", "--at=+2h").want(t, exitOK)
	node, base := probed(t, append(variables, "TASKTABLE_ENVIRONMENT=staging 2"), "--dashboard",
		"--environment-color=red", "--service=shop")
	becomes(t, base+"/readyz", http.StatusOK)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	defer browser.CloseIdleConnections()
	for _, path := range []string{"/", "/tasks", "/tasks/mail-42", "/queues", "/nodes", "/search?q=mail-42"} {
		code, text := send(t, browser, http.MethodGet, base+path, "")
		if code != http.StatusOK || !strings.Contains(text, "Sign in") || strings.Contains(text, "LOG") {
			t.Errorf("%s without a session: %d %s", path, code, text)
		}
	}
	code, text := send(t, browser, http.MethodPost, base+"/sign-in", url.Values{"key": {secret}}.Encode(),
		"Content-Type", "application/x-www-form-urlencoded")
	if code != http.StatusOK || !strings.Contains(text, "<h1>Overview</h1>") {
		t.Fatalf("signed in: %d %s", code, text)
	}
	for path, want := range map[string]string{
		"/tasks":         `href="/tasks/mail-42"`,
		"/tasks/mail-42": "Its time has not come",
		"/queues":        "default",
	} {
		if code, text := send(t, browser, http.MethodGet, base+path, ""); code != http.StatusOK ||
			!strings.Contains(text, want) {
			t.Errorf("%s: %d, no %q in %s", path, code, want, text)
		}
	}
	if code, text := get(t, base+"/livez"); code != http.StatusOK {
		t.Errorf("/livez: %d %s", code, text)
	}
	if !strings.Contains(text, "<title>Overview · staging 2 · Tasktable</title>") ||
		!strings.Contains(text, `data-color="red"`) {
		t.Errorf("the environment is not in %s", text)
	}
	if _, text := get(t, base+"/metrics"); !strings.Contains(text, `target_info{environment="staging 2",service="shop"} 1`) {
		t.Error("the metrics lack the environment")
	}
	node.stop(`environment="staging 2"`)
}

// Only an address of this machine may be open, and only a host name of this machine is answered then.
func TestDashboardOpen(t *testing.T) {
	t.Parallel()
	open := dashboardSettings{open: true}
	for host, known := range map[string]bool{
		"127.0.0.1:8080": true, "localhost:8080": true, "[::1]:8080": true, "127.0.0.1": true, "localhost": true,
		"evil.example:8080": false, "localhost.evil.example": false, "": false, "10.0.0.7:80": false, "0.0.0.0:80": false,
	} {
		person, err := open.authenticate()(&http.Request{Host: host})
		if (err == nil) != known || known && person.Scopes != dashboard.All {
			t.Errorf("%q: %+v, %v", host, person, err)
		}
	}
	for _, header := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Via"} {
		r := &http.Request{Host: "127.0.0.1:8080", Header: http.Header{}}
		r.Header.Set(header, "203.0.113.7")
		if person, err := open.authenticate()(r); !errors.Is(err, dashboard.ErrUnauthenticated) {
			t.Errorf("a proxy that sends %s: %+v, %v", header, person, err)
		}
	}
}

// /metrics and the reasons of probes are refused to other hosts, too. --probe-addr answers every host.
func TestServeWithAnOpenDashboard(t *testing.T) {
	t.Parallel()
	p, base := probed(t, []string{"DATABASE_URL=" + storetest.URL(t)}, "--dashboard", "--dashboard-open")
	becomes(t, base+"/readyz", http.StatusOK)
	for host, want := range map[string]int{
		"127.0.0.1:8080": http.StatusOK, "localhost": http.StatusOK, "evil.example": http.StatusUnauthorized,
	} {
		for path, code := range map[string]int{"/": want, "/metrics": want, "/readyz": http.StatusOK} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Host = host
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(response.Body)
			_ = response.Body.Close()
			told := path != "/readyz" || strings.Contains(string(text), `"name"`) == (want == http.StatusOK)
			if err != nil || response.StatusCode != code || !told {
				t.Errorf("%s of %s: %d %s, %v", path, host, response.StatusCode, text, err)
			}
		}
	}
	p.stop()
	answer := httptest.NewRecorder()
	(&httpServer{local: true}).probes(newMetrics().metricsHandler()).
		ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://node-7:8081/metrics", nil))
	if answer.Code != http.StatusOK {
		t.Errorf("a scrape at --probe-addr: %d", answer.Code)
	}
}

func TestReachable(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"0.0.0.0:8080": "localhost:8080", "[::]:8080": "localhost:8080", "127.0.0.1:80": "127.0.0.1:80",
		"[::1]:80": "[::1]:80", "10.0.0.7:80": "10.0.0.7:80", ":8080": "localhost:8080", "node:80": "node:80",
	} {
		if got := reachable(address); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}
