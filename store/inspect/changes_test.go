package inspect_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

func TestChanges(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, id := range []string{"a-1", "a-2", "b"} {
		b.Schedule(base(id))
	}
	began := b.Now()
	b.must(b.Tasks.Pause(b.Ctx, b.Pool, "a-1"))
	other := store.New(store.Config{Service: "admin"})
	b.must(other.Cancel(b.Ctx, b.Pool, "b"))
	b.must(other.Resume(b.Ctx, b.Pool, "a-1"))
	b.must(other.Delete(b.Ctx, b.Pool, "a-2"))
	for name, c := range map[string]struct {
		filter inspect.ChangesFilter
		want   string
	}{
		"edits":     {inspect.ChangesFilter{}, "delete a-2, resume a-1, cancel b, pause a-1"},
		"all":       {inspect.ChangesFilter{Created: true, Limit: 5}, "delete a-2, resume a-1, cancel b, pause a-1, schedule b"},
		"by":        {inspect.ChangesFilter{By: service}, "pause a-1"},
		"verb":      {inspect.ChangesFilter{Verb: "cancel"}, "cancel b"},
		"id":        {inspect.ChangesFilter{ID: "a-1"}, "resume a-1, pause a-1"},
		"id prefix": {inspect.ChangesFilter{IDPrefix: "a-", By: "admin"}, "delete a-2, resume a-1"},
		"from":      {inspect.ChangesFilter{From: began, Created: true}, "delete a-2, resume a-1, cancel b, pause a-1"},
		"to":        {inspect.ChangesFilter{To: began, Created: true}, "schedule b, schedule a-2, schedule a-1"},
		"none":      {inspect.ChangesFilter{By: "nobody"}, ""},
	} {
		for driver, db := range b.Readers() {
			page, err := b.Inspector.Changes(b.Ctx, db, c.filter)
			b.Check(err)
			if got := changed(page); got != c.want {
				t.Errorf("%s, %s: %s\ninstead of %s", driver, name, got, c.want)
			}
			var pages []string
			for filter := c.filter; ; filter.After = page.After {
				filter.Limit = 1
				page, err = b.Inspector.Changes(b.Ctx, db, filter)
				b.Check(err)
				pages = append(pages, changed(page))
				if page.After == 0 {
					break
				}
			}
			if got := strings.Join(pages, ", "); !strings.HasPrefix(got, c.want) {
				t.Errorf("%s, %s, page by page: %s\ninstead of %s", driver, name, got, c.want)
			}
		}
	}
	for name, bad := range map[string]inspect.ChangesFilter{
		"by": {By: "a\x00"}, "limit": {Limit: -1}, "too many": {Limit: 10001}, "after": {After: -1},
		"from": {From: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		if _, err := b.Inspector.Changes(b.Ctx, noDB(b), bad); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func changed(page inspect.ChangesPage) string {
	var lines []string
	for _, c := range page.Changes {
		lines = append(lines, c.Verb+" "+c.TaskID)
	}
	return strings.Join(lines, ", ")
}
