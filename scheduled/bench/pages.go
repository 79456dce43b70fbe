package main

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/tasktable/tasktable/scheduled/dashboard"
)

// readsPages are pages of the dashboard, by their names in the result.
var readsPages = []struct{ name, path string }{
	{"overview", "/"},
	{"overview_7d", "/?window=7d"},
	{"tasks", "/tasks"},
	{"tasks_failed", "/tasks?status=FAILED"},
	{"tasks_waiting", "/tasks?status=QUEUED&order=scheduled_at"},
	{"tasks_completed", "/tasks?status=COMPLETED&order=-finished_at&finished_from=-1d"},
	{"tasks_type", "/tasks?type=TYPE_30"},
	{"tasks_queue", "/tasks?queue=queue-3"},
	{"tasks_tenant", "/tasks?tenant=tenant-7"},
	{"tasks_entity", "/tasks?entity=entity:7"},
	{"tasks_prefix", "/tasks?id_prefix=task-TYPE_3-1"},
	{"tasks_message", "/tasks?message=nowhere"},
	{"tasks_archived", "/tasks?archived=true"},
	{"tasks_failed_tenant", "/tasks?status=FAILED&tenant=tenant-7"},
	{"task", "/tasks/recurring-7@7"},
	{"dead", "/dead"},
	{"dead_one", "/dead?type=TYPE_7"},
	{"recurring", "/recurring"},
	{"recurring_task", "/recurring/recurring-7"},
	{"calendar", "/recurring/calendar"},
	{"queues", "/queues"},
	{"queue", "/queues/queue-3"},
	{"nodes", "/nodes"},
	{"changes", "/changes"},
	{"changes_by", "/changes?by=admin-3"},
	{"keys", "/keys"},
	{"notices", "/notices"},
}

// timePages measures pages of the dashboard, on the server alone.
func (d *database) timePages(ctx context.Context, times int, result *Result) error {
	board, err := dashboard.New(dashboard.Config{
		Pool: d.Pool, Logger: slog.New(slog.DiscardHandler),
		Authenticate: func(*http.Request) (dashboard.Person, error) {
			return dashboard.Person{Name: "bench", Scopes: dashboard.All}, nil
		},
	})
	if err != nil {
		return err
	}
	for _, one := range readsPages {
		err := result.time(times, "page_"+one.name, func() error { return get(ctx, board.Handler(), one.path) })
		if err != nil {
			return err
		}
	}
	return nil
}

// get asks a handler for a page.
func get(ctx context.Context, handler http.Handler, path string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	answer := &pageWriter{header: http.Header{}, status: http.StatusOK}
	handler.ServeHTTP(answer, request)
	if answer.status != http.StatusOK || answer.bytes == 0 {
		return failed("the page %s: answer %d of %d bytes", path, answer.status, answer.bytes)
	}
	return nil
}

// pageWriter counts what is written.
type pageWriter struct {
	header http.Header
	status int
	bytes  int
}

func (w *pageWriter) Header() http.Header         { return w.header }
func (w *pageWriter) WriteHeader(status int)      { w.status = status }
func (w *pageWriter) Write(b []byte) (int, error) { w.bytes += len(b); return len(b), nil }
