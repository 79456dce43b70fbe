package api_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/scheduled/api"
	"github.com/tasktable/tasktable/store"
)

// padded returns a body of so many bytes that schedules a task. The space is outside of the payload.
func padded(bytes int) string { return hello + strings.Repeat(" ", bytes-len(hello)) }

// nested returns a body that schedules a task, and has so many levels of objects and arrays.
func nested(levels int) string {
	return `{"payload": {"type": "LOG", "brackets": "[[[\"[[{", "a": ` + strings.Repeat("[", levels-2) +
		strings.Repeat("]", levels-2) + `}}`
}

func TestBodyLimits(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for name, c := range map[string]struct {
		status     int
		body, says string
	}{
		"the largest":        {201, padded(api.MaxBodyBytes), ""},
		"one byte more":      {413, padded(api.MaxBodyBytes + 1), "the body must be at most 1048576 bytes"},
		"the deepest":        {201, nested(api.MaxDepth), ""},
		"one level more":     {400, nested(api.MaxDepth + 1), "the body must have at most 64 levels of nesting"},
		"many levels":        {400, strings.Repeat("[", 500000), "the body must have at most 64 levels of nesting"},
		"objects":            {400, strings.Repeat(`{"a":`, 65), "the body must have at most 64 levels of nesting"},
		"closed in between":  {400, `{"payload": ` + strings.Repeat("[]", 100), "body: invalid character"},
		"more ends than not": {400, strings.Repeat("]", 100), "body: invalid character"},
	} {
		s.run(name, func(s *service) {
			got := s.wants(c.status, "all", "PUT", pathOf(name), c.body)
			if c.status >= 400 {
				s.says(got, c.says)
				s.absent(name)
			}
		})
	}
	s.wants(413, "all", "GET", "/v1/tasks", padded(api.MaxBodyBytes+1)) // also a call that needs no body
}

// The address is limited before the key is asked for, so that nobody can try keys fast.
func TestAddressRate(t *testing.T) {
	t.Parallel()
	asked := 0
	s := newService(t, func(config *api.Config) {
		config.AddressRate = 1
		config.Authenticate = func(*http.Request) (api.Caller, error) {
			asked++
			return api.Caller{}, api.ErrUnauthenticated
		}
	})
	from := func(address string) *httptest.ResponseRecorder {
		request := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/tasks", nil)
		request.RemoteAddr = address
		return s.serve("", request)
	}
	refused := 0
	for port := range 10 {
		answer := from(fmt.Sprintf("192.0.2.1:%d", port))
		if answer.Code != 429 {
			continue
		}
		refused++
		if retry := answer.Header().Get("Retry-After"); retry != "1" {
			t.Errorf("Retry-After %q, want 1", retry)
		}
		s.says(reply{answer.Code, answer.Header(), answer.Body.String()}, "one address may make")
	}
	if asked+refused != 10 || refused == 0 {
		t.Errorf("of 10 calls %d are refused, and %d ask for the caller", refused, asked)
	}
	for _, address := range []string{"192.0.2.2:1", "[2001:db8::1]:1", "@"} {
		if answer := from(address); answer.Code != 401 {
			t.Errorf("another address %s: answer %d %s", address, answer.Code, answer.Body)
		}
	}
}

// Callers behind a trusted proxy have a rate each. A header of somebody else does not give another rate.
func TestAddressRateBehindAProxy(t *testing.T) {
	t.Parallel()
	s := newService(t, func(config *api.Config) {
		config.AddressRate = 1
		config.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	})
	refused := func(peer, forwarded string) (count int) {
		for range 10 {
			request := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/tasks", nil)
			request.RemoteAddr = peer
			request.Header.Set("X-Forwarded-For", forwarded)
			if s.serve("", request).Code == 429 {
				count++
			}
		}
		return count
	}
	for i := range 5 {
		if refused("10.0.0.1:1", fmt.Sprintf("192.0.2.%d", i)) == 10 || refused("10.0.0.1:1", fmt.Sprintf("192.0.2.%d", i)) == 0 {
			t.Errorf("caller %d behind the proxy has no rate of its own", i)
		}
	}
	all := 0
	for i := range 5 {
		all += refused("198.51.100.1:1", fmt.Sprintf("192.0.2.%d", 100+i))
	}
	if all < 40 {
		t.Errorf("of 50 calls with forged headers %d are refused", all)
	}
}

func TestCallerRate(t *testing.T) {
	t.Parallel()
	s := newService(t)
	refused := 0
	for tries := 0; refused == 0 && tries < 1000; tries++ {
		got := s.call("slow", "GET", "/v1/queues", "")
		if policy := got.header.Get("RateLimit-Policy"); policy != `"key";q=1;w=1` {
			t.Errorf("RateLimit-Policy %q", policy)
		}
		if got.status == 200 {
			continue
		}
		refused++
		s.says(got, "the key may make 1 calls a second")
		if got.status != 429 || got.header.Get("Retry-After") != "1" || got.header.Get("RateLimit") != `"key";r=0;t=1` {
			t.Errorf("answer %d, Retry-After %q, RateLimit %q", got.status, got.header.Get("Retry-After"),
				got.header.Get("RateLimit"))
		}
	}
	if refused == 0 {
		t.Error("no call is refused")
	}
	s.wants(200, "reader", "GET", "/v1/queues", "") // another caller has its own rate
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for _, call := range []struct {
		status               int
		caller, method, path string
	}{
		{200, "all", "GET", "/v1/tasks"}, {401, "", "GET", "/v1/tasks"}, {404, "", "GET", "/"}, {404, "", "GET", "/v2"},
		{405, "", "PATCH", "/v1/tasks"}, {200, "", "GET", "/openapi.json"}, {404, "all", "GET", "/v1/tasks/none"},
		{405, "", "OPTIONS", "/v1/tasks/a"}, {404, "", "GET", "/v1//tasks"}, {404, "", "GET", "/docs/.."},
	} {
		got := s.wants(call.status, call.caller, call.method, call.path, "", "Origin", "https://evil.example")
		for name, want := range map[string]string{
			"X-Content-Type-Options":      "nosniff",
			"Content-Security-Policy":     "default-src 'none'; frame-ancestors 'none'",
			"Cache-Control":               "no-store",
			"Access-Control-Allow-Origin": "",
		} {
			if value := got.header.Get(name); value != want {
				t.Errorf("%s %s: %s %q, want %q", call.method, call.path, name, value, want)
			}
		}
		if got.status >= 400 {
			s.says(got, map[int]string{401: "key", 404: "no such", 405: "the path has the methods"}[got.status])
		}
	}
	for path, allow := range map[string]string{
		"/v1/tasks": "GET, POST", "/v1/tasks/a": "GET, PUT, PATCH, DELETE", "/v1/tasks/a/pause": "POST", "/openapi.json": "GET",
	} {
		if got := s.wants(405, "", "OPTIONS", path, ""); got.header.Get("Allow") != allow {
			t.Errorf("%s: Allow %q, want %q", path, got.header.Get("Allow"), allow)
		}
	}
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	s := newService(t)
	fresh := regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	for given, kept := range map[string]bool{
		"": false, "abc-1_2.Z": true, strings.Repeat("a", 64): true, strings.Repeat("a", 65): false, "a b": false,
		"a\"b": false, "ä": false, "a=b": false,
	} {
		got := s.call("all", "GET", "/v1/queues", "", "X-Request-Id", given).header.Get("X-Request-Id")
		if kept && got != given || !kept && !fresh.MatchString(got) {
			t.Errorf("id %q became %q", given, got)
		}
		until(t, "the log has the call "+got, func() bool { return strings.Contains(s.log.String(), "request="+got) })
	}
}

func TestCrossOrigin(t *testing.T) {
	t.Parallel()
	s := newService(t, func(config *api.Config) { config.AllowOrigins = []string{"https://admin.example.org"} })
	const mine = "https://admin.example.org"
	got := s.wants(200, "all", "GET", "/v1/tasks", "", "Origin", mine)
	if got.header.Get("Access-Control-Allow-Origin") != mine || got.header.Get("Vary") != "Origin" {
		t.Errorf("headers %v", got.header)
	}
	asked := s.wants(204, "", "OPTIONS", "/v1/tasks/a", "", "Origin", mine, "Access-Control-Request-Method", "PUT")
	for name, want := range map[string]string{
		"Access-Control-Allow-Origin":  mine,
		"Access-Control-Allow-Methods": "GET, POST, PUT, PATCH, DELETE",
		"Access-Control-Allow-Headers": "Authorization, Content-Type, Idempotency-Key, If-Match, X-Request-Id",
		"Access-Control-Max-Age":       "600",
	} {
		if asked.header.Get(name) != want {
			t.Errorf("%s %q, want %q", name, asked.header.Get(name), want)
		}
	}
	for _, origin := range []string{"https://evil.example", "null", mine + ".evil.example", "http://admin.example.org", ""} {
		got := s.wants(405, "", "OPTIONS", "/v1/tasks/a", "", "Origin", origin, "Access-Control-Request-Method", "PUT")
		for name := range got.header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("origin %q: header %s", origin, name)
			}
		}
	}
	s.wants(401, "", "GET", "/v1/tasks", "", "Origin", mine) // a browser needs a key, too
}

// A panic is an answer without a stack. The stack is in the log.
func TestPanic(t *testing.T) {
	t.Parallel()
	s := newService(t, func(config *api.Config) {
		config.Authenticate = func(*http.Request) (api.Caller, error) { panic(errors.New("broken authentication")) }
	})
	got := s.wants(500, "all", "GET", "/v1/tasks", "")
	s.says(got, "the call failed; the log of the service says why")
	if strings.Contains(got.text, "broken") || strings.Contains(got.text, ".go") {
		t.Errorf("the answer tells about the panic: %s", got.text)
	}
	for _, text := range []string{"broken authentication", "protect.go", "request=" + got.header.Get("X-Request-Id"), "status=500"} {
		until(t, "the log has "+text, func() bool { return strings.Contains(s.log.String(), text) })
	}
}

// An error of the database is in the log alone.
func TestDatabaseErrors(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.exec(`ALTER TABLE tasktable.scheduled_task_changes RENAME COLUMN verb TO word`)
	got := s.wants(500, "all", "PUT", "/v1/tasks/a", hello)
	s.says(got, "the call failed; the log of the service says why")
	if !strings.Contains(s.log.String(), `column \"verb\"`) || strings.Contains(got.text, "verb") {
		t.Errorf("answer %s, log %s", got.text, s.log)
	}
	s.exec(`DROP SCHEMA tasktable CASCADE`)
	s.says(s.wants(503, "all", "GET", "/v1/tasks", ""), "the database is not migrated")
}

// What the database says of itself while it restarts or is full ends by itself, so the client is to try again.
func TestDatabaseIsAway(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN RAISE EXCEPTION 'canary' USING ERRCODE = NEW.payload ->> 'code'; END $$`)
	s.exec(`CREATE TRIGGER a_refuse BEFORE INSERT ON tasktable.scheduled_tasks FOR EACH ROW EXECUTE FUNCTION refuse()`)
	for code, status := range map[string]int{
		"57P01": 503, // a restart ended the connection
		"57P03": 503, // it is starting up
		"57014": 503, // statement_timeout
		"53300": 503, // too many connections
		"53100": 503, // the disk is full
		"08006": 503, // the connection broke, as a pooler tells it
		"55P03": 503, // lock_timeout
		"25P03": 503, // idle_in_transaction_session_timeout
		"25006": 503, // a standby, shortly after a failover
		"23505": 500,
		"XX000": 500,
	} {
		body := `{"payload": {"type": "LOG", "message": "hi", "code": "` + code + `"}}`
		got := s.wants(status, "all", "PUT", "/v1/tasks/a", body)
		if strings.Contains(got.text, "canary") || (got.header.Get("Retry-After") == "1") != (status == 503) {
			t.Errorf("%s: Retry-After %q, %s", code, got.header.Get("Retry-After"), got.text)
		}
	}
}

// A call that waits for a lock too long is ended, so that its connection is free for others.
func TestTimeLimit(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.make("a", store.StatusQueued)
	limited := newService(t, func(config *api.Config) { config.Pool, config.Timeout = s.pool, 200*time.Millisecond })
	s.holding("a", func(pgx.Tx) {
		for _, headers := range [][]string{nil, {"If-Match", "*"}, {"Idempotency-Key", "k"}} {
			got := limited.wants(503, "all", "POST", "/v1/tasks/a/cancel", "", headers...)
			s.says(got, "the database did not finish the call in time")
			if got.header.Get("Retry-After") != "1" {
				t.Errorf("Retry-After %q", got.header.Get("Retry-After"))
			}
		}
	})
	s.hasLines("a", "schedule created svc")
}

// A pool with a limit for locks tells that a task is locked, and does not blame the database.
func TestALockedTaskIsToldAsSuch(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.make("a", store.StatusQueued)
	waits := s.pool.Config()
	waits.ConnConfig.RuntimeParams["lock_timeout"] = "100ms"
	pool, err := pgxpool.NewWithConfig(t.Context(), waits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	limited := newService(t, func(config *api.Config) { config.Pool = pool })
	s.holding("a", func(pgx.Tx) {
		got := limited.wants(503, "all", "PATCH", "/v1/tasks/a", `{"priority": 3}`)
		s.says(got, "somebody else has locked the task for too long; try again")
		if got.field("code") != "locked" || got.header.Get("Retry-After") != "1" {
			t.Errorf("Retry-After %q, %s", got.header.Get("Retry-After"), got.text)
		}
	})
}

// The time of ?wait is no time of the database.
func TestTimeLimitOfAWait(t *testing.T) {
	t.Parallel()
	s := newService(t, func(config *api.Config) { config.Timeout = 2 * time.Second })
	s.make("a", store.StatusQueued)
	if got := s.wants(200, "all", "GET", "/v1/tasks/a?wait=2100ms", ""); got.field("status") != "QUEUED" {
		t.Errorf("answer %s", got.text)
	}
}

// deadlines records the deadlines for reading from the connection that are set after the body is there.
type deadlines struct {
	*httptest.ResponseRecorder
	body *strings.Reader
	set  []time.Time
}

// SetReadDeadline records it.
func (d *deadlines) SetReadDeadline(at time.Time) error {
	if d.body.Len() == 0 {
		d.set = append(d.set, at)
	}
	return nil
}

// When the body is there, a deadline for reading must not be set. net/http reads on, to notice that the client is
// gone, and takes a deadline for that. The call would end while it waits for a lock.
func TestNoReadDeadlineForACallThatHasArrived(t *testing.T) {
	t.Parallel()
	s := newService(t)
	body := strings.NewReader(hello)
	request := httptest.NewRequestWithContext(t.Context(), "PUT", "/v1/tasks/a", body)
	request.Header.Set("Authorization", "Bearer all")
	request.Header.Set("Content-Type", "application/json")
	answer := &deadlines{ResponseRecorder: httptest.NewRecorder(), body: body}
	s.api.Handler().ServeHTTP(answer, request)
	if answer.Code != 201 {
		t.Fatalf("answer %d %s", answer.Code, answer.Body)
	}
	for _, at := range answer.set {
		if !at.IsZero() {
			t.Errorf("a deadline in %v is set", time.Until(at))
		}
	}
}
