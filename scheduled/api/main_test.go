package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/scheduled/api"
	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
	"github.com/tasktable/tasktable/store/storetest/leaks"
)

func TestMain(m *testing.M) { storetest.Main(m, leaks.Check) }

// service is a running API, whose callers are known by their names.
type service struct {
	*testing.T

	pool   *pgxpool.Pool
	api    *api.API
	url    string
	client *http.Client
	log    *logText
}

var callers = map[string]api.Caller{
	"all":       {Name: "all", Service: "svc", Scopes: []keys.Scope{keys.Read, keys.Schedule, keys.Operate}},
	"reader":    {Name: "reader", Scopes: []keys.Scope{keys.Read}},
	"scheduler": {Name: "scheduler", Scopes: []keys.Scope{keys.Schedule}},
	"operator":  {Name: "operator", Scopes: []keys.Scope{keys.Operate}},
	"slow":      {Name: "slow", Scopes: []keys.Scope{keys.Read}, Rate: 1},
}

func newService(t *testing.T, changes ...func(*api.Config)) *service {
	t.Helper()
	pool, log := storetest.Pool(t), &logText{}
	config := api.Config{
		Pool: pool, AddressRate: 100000, CallerRate: 100000, Logger: slog.New(slog.NewTextHandler(log, nil)),
		Authenticate: func(r *http.Request) (api.Caller, error) {
			name, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			if caller, known := callers[name]; known {
				return caller, nil
			}
			return api.Caller{}, fmt.Errorf("%w: %q", api.ErrUnauthenticated, name)
		},
	}
	for _, change := range changes {
		change(&config)
	}
	a, err := api.New(config)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(a.Handler())
	t.Cleanup(server.Close)
	return &service{T: t, pool: pool, api: a, url: server.URL, client: server.Client(), log: log}
}

// reply is an answer of the API.
type reply struct {
	status int
	header http.Header
	text   string
}

// json reads the body into a value.
func (r reply) json(t *testing.T, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.text), into); err != nil {
		t.Fatalf("answer %d %s: %v", r.status, r.text, err)
	}
}

// answerTo is the answer to a reading call.
func answerTo[T any](s *service, path string) (answer T) {
	s.Helper()
	s.wants(http.StatusOK, "reader", "GET", path, "").json(s.T, &answer)
	return answer
}

// field returns a field of the body as text, or "".
func (r reply) field(name string) string {
	var fields map[string]any
	if json.Unmarshal([]byte(r.text), &fields) != nil || fields[name] == nil {
		return ""
	}
	return fmt.Sprint(fields[name])
}

// call sends a request. The headers are pairs of a name and a value.
func (s *service) call(caller, method, path, body string, headers ...string) reply {
	s.Helper()
	got := s.send(caller, method, path, body, headers...)
	if got.status == 0 {
		s.FailNow()
	}
	return got
}

// send is call for goroutines. Without an answer it fails the test and returns the zero value.
func (s *service) send(caller, method, path, body string, headers ...string) reply {
	s.Helper()
	request, err := http.NewRequestWithContext(s.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.Error(err)
		return reply{}
	}
	if caller != "" {
		request.Header.Set("Authorization", "Bearer "+caller)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := s.client.Do(request)
	if err != nil {
		s.Errorf("%s %s: %v", method, path, err)
		return reply{}
	}
	defer func() { _ = response.Body.Close() }()
	if response.Header.Get("Content-Type") == "text/event-stream" { // it has no end
		return reply{response.StatusCode, response.Header, ""}
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.Errorf("%s %s: %v", method, path, err)
		return reply{}
	}
	return reply{response.StatusCode, response.Header, strings.TrimSpace(string(text))}
}

// serve answers a request of a caller without a connection.
func (s *service) serve(caller string, request *http.Request) *httptest.ResponseRecorder {
	request.Header.Set("Authorization", "Bearer "+caller)
	request.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	s.api.Handler().ServeHTTP(answer, request)
	return answer
}

// wants calls and compares the status.
func (s *service) wants(status int, caller, method, path, body string, headers ...string) reply {
	s.Helper()
	got := s.call(caller, method, path, body, headers...)
	if got.status != status {
		s.Fatalf("%s %s as %q: answer %d %s, want %d", method, path, caller, got.status, got.text, status)
	}
	return got
}

func (s *service) exec(sql string, args ...any) {
	s.Helper()
	if _, err := s.pool.Exec(s.Context(), sql, args...); err != nil {
		s.Fatal(err)
	}
}

func (s *service) row(id string) store.Row {
	s.Helper()
	row, err := store.New(store.Config{}).Get(s.Context(), s.pool, id)
	if err != nil {
		s.Fatal(err)
	}
	return row
}

// logText is a log that tests read.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
