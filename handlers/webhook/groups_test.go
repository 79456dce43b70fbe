package webhook_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/handlers/webhook/contract"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// Dead letters of different statuses are different groups, although the rest of their messages is the same.
func TestStatusesAreGroupsOfDeadLetters(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		status, _ := strconv.Atoi(r.URL.Query().Get("status"))
		w.WriteHeader(status)
	})
	tx, harness := inline(t)
	for i, status := range []int{404, 410, 500, 404} {
		mustSchedule(t, tx, store.Task{ID: fmt.Sprint(i), At: nine, MaxAttempts: 1,
			Payload: contract.HTTPRequest{URL: fmt.Sprintf("%s/?status=%d", server.URL, status)}})
	}
	harness.RunDueAt(ctx, nine)
	groups, err := inspect.New(store.Config{}).Groups(ctx, tx, inspect.DeadLetters(), "")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, group := range groups {
		_, after, _ := strings.Cut(group.Message, "answered ")
		got = append(got, fmt.Sprintf("%d of %.3s", group.Count, after))
	}
	slices.Sort(got)
	if want := []string{"1 of 410", "1 of 500", "2 of 404"}; !slices.Equal(got, want) {
		t.Errorf("groups %q, want %q: %+v", got, want, groups)
	}
}
