package clients_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled"
	"github.com/tasktable/tasktable/scheduled/api"
	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/store/storetest"
)

const key = "the-key"

// service is a running API, with a node that runs the tasks of type JOB.
type service struct {
	pool *pgxpool.Pool
	url  string

	mu     sync.Mutex
	called map[string]bool // the operations that clients have called
}

// job is done, or fails, as its payload asks.
type job struct {
	Note string `json:"note"`
	Fail bool   `json:"fail"`
}

func (job) TaskType() string { return "JOB" }

func run(_ context.Context, t *handlers.Task[job]) error {
	if t.Payload.Fail {
		return handlers.Permanent(errors.New("as the payload asks"))
	}
	t.Result(map[string]string{"note": t.Payload.Note})
	return nil
}

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{pool: storetest.Pool(t), called: map[string]bool{}}
	s.startNode(t)
	served, err := api.New(api.Config{
		Pool: s.pool, Logger: slog.New(slog.DiscardHandler),
		Authenticate: func(r *http.Request) (api.Caller, error) {
			if r.Header.Get("Authorization") != "Bearer "+key {
				return api.Caller{}, api.ErrUnauthenticated
			}
			return api.Caller{Name: "client", Scopes: []keys.Scope{keys.Read, keys.Schedule, keys.Operate}}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s.noting(operations(t), served.Handler()))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *service) startNode(t *testing.T) {
	t.Helper()
	registry, err := handlers.NewRegistry(handlers.Handle(run))
	if err != nil {
		t.Fatal(err)
	}
	node, err := scheduled.New(scheduled.Config{Pool: s.pool, Handlers: registry, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the node: %v", err)
		}
	})
}

// noting notes which operations are called.
func (s *service) noting(operations map[string]string, next http.Handler) http.Handler {
	routes := http.NewServeMux()
	for route := range operations {
		routes.HandleFunc(route, http.NotFound)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, route := routes.Handler(r)
		s.mu.Lock()
		s.called[operations[route]] = true
		s.mu.Unlock()
		next.ServeHTTP(w, r)
	})
}

func (s *service) calledSoFar() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.called)
}

// operations returns the ids of the operations by their method and path, without the stream of events, for which
// generators make no client.
func operations(t *testing.T) map[string]string {
	t.Helper()
	var document struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
		} `json:"paths"`
	}
	if err := json.Unmarshal([]byte(readFile(t, "../openapi.json")), &document); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for path, methods := range document.Paths {
		for method, operation := range methods {
			if operation.OperationID != "followEvents" {
				found[strings.ToUpper(method)+" "+path] = operation.OperationID
			}
		}
	}
	return found
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
