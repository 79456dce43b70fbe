package dashboard_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/dashboard"
	"github.com/tasktable/tasktable/store"
)

func TestChanges(t *testing.T) {
	t.Parallel()
	b := newBoard(t, as("ann", dashboard.Read, ""), func(c *dashboard.Config) { c.Prefix = "/admin" })
	b.get("/changes").wants(t, http.StatusOK, "Nobody has changed a task since it was created.")
	at := time.Date(2100, 1, 1, 12, 0, 0, 0, time.UTC)
	for i := range 60 {
		b.schedule(task(fmt.Sprintf("task-%02d", i), "TEST", at))
	}
	other := store.New(store.Config{Service: "bob" + markup})
	for i := range 55 {
		b.must(other.Reschedule(t.Context(), b.pool, fmt.Sprintf("task-%02d", i), at.Add(time.Hour)))
	}
	b.must(b.tasks.Cancel(t.Context(), b.pool, "task-59"))
	first := b.get("/changes").wants(t, http.StatusOK, "cancel cancelled task-59", "bob&lt;script&gt;",
		`href="/admin/tasks/task-59"`, "12:00:00 UTC → 2100-01-01 13:00:00 UTC", "Next page").
		lacks(t, markup, ">created<", "First page")
	second := b.get(strings.TrimPrefix(first.next(), "/admin")).
		wants(t, http.StatusOK, "task-00", "task-05", "First page").lacks(t, "task-06", "Next page")
	if n := strings.Count(second.text, "<tr data-key"); n != 6 {
		t.Errorf("%d changes on the second page", n)
	}
	for query, want := range map[string]struct{ has, lacks string }{
		"?by=test":                   {"task-59", "task-54"},
		"?verb=reschedule&id=task-1": {"task-19", "task-20"},
		"?id=task-58&created=1":      {"task-58", "task-57"},
		"?id=task-58":                {"No change matches.", "task-57"},
		"?to=2020-01-01T00:00":       {"No change matches.", "task-59"},
		"?from=2020-01-01T00:00":     {"task-59", "No change"},
	} {
		b.get("/changes"+query).wants(t, http.StatusOK, want.has, "All changes").lacks(t, ">"+want.lacks+"<")
	}
	for query, want := range map[string]string{
		"?from=soon": "From must be a time, such as", "?to=2020": "To must be a time, such as",
		"?after=x": "After must be the number of a change.", "?after=-1": "after", "?by=a%00b": "by", "?id=%ff": "id",
	} {
		b.get("/changes"+query).wants(t, http.StatusUnprocessableEntity, want)
	}
}
