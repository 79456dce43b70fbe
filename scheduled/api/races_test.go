package api_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/tasktable/tasktable/store"
)

const racers = 20

// race runs do in many goroutines at once.
func race(do func(i int)) {
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range racers {
		all.Go(func() {
			<-start
			do(i)
		})
	}
	close(start)
	all.Wait()
}

// Callers patch different fields of one task at once. No patch is lost. A caller that is told to try again does so.
func TestPatchesAtOnce(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.make("task", store.StatusQueued)
	race(func(i int) {
		for tries := 1; ; tries++ {
			got := s.send("all", "PATCH", "/v1/tasks/task", fmt.Sprintf(`{"payload": {"field%d": %d}}`, i, i))
			if got.status == 200 && got.field("outcome") == "rescheduled" {
				return
			}
			if got.status != 409 || got.header.Get("Retry-After") == "" || tries > 10*racers {
				t.Errorf("try %d: answer %d %s", tries, got.status, got.text)
				return
			}
		}
	})
	fields := value[int64](s, `SELECT count(*) FROM tasktable.scheduled_tasks, jsonb_each_text(payload)
		WHERE id = 'task' AND key = 'field' || value`)
	if fields != racers {
		t.Errorf("%d of %d patches are in the task", fields, racers)
	}
	if lines := s.lines("task"); len(lines) != racers+1 {
		t.Errorf("%d changes, want %d: %q", len(lines), racers+1, lines)
	}
}

// Callers repeat one call at once. It is made once, and each caller has its answer, or is told to try again.
func TestRepeatsAtOnce(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for _, c := range []struct{ id, method, body string }{
		{"put", "PUT", hello}, {"patch", "PATCH", `{"priority": 5}`}, {"nothing", "PATCH", `{}`},
	} {
		changes := 1
		if c.method == "PATCH" {
			s.make(c.id, store.StatusQueued)
			changes = map[string]int{"patch": 2, "nothing": 1}[c.id]
		}
		answers := make([]reply, racers)
		race(func(i int) {
			answers[i] = s.send("all", c.method, pathOf(c.id), c.body, "Idempotency-Key", c.id)
		})
		first := s.call("all", c.method, pathOf(c.id), c.body, "Idempotency-Key", c.id)
		for _, got := range answers {
			if got.status == 409 && got.header.Get("Retry-After") == "1" {
				continue
			}
			s.sameAnswer(c.id, first, got)
		}
		if lines := s.lines(c.id); len(lines) != changes {
			t.Errorf("%s: changes %q, want %d", c.id, lines, changes)
		}
	}
}

// Callers create one task at once. One of them creates it, and the others find it unchanged.
func TestPutsAtOnce(t *testing.T) {
	t.Parallel()
	s := newService(t)
	answers := make([]reply, racers)
	race(func(i int) { answers[i] = s.send("all", "PUT", "/v1/tasks/task", hello) })
	outcomes := map[string]int{}
	for _, got := range answers {
		outcomes[fmt.Sprint(got.status)+" "+got.field("outcome")]++
		if got.header.Get("ETag") != answers[0].header.Get("ETag") {
			t.Errorf("ETags %s and %s", got.header.Get("ETag"), answers[0].header.Get("ETag"))
		}
	}
	if outcomes["201 created"] != 1 || outcomes["200 unchanged"] != racers-1 {
		t.Errorf("outcomes %v", outcomes)
	}
	s.hasLines("task", "schedule created svc")
}

// Of several callers that have read one revision, one edits the task.
func TestIfMatchAtOnce(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.make("task", store.StatusQueued)
	tag := s.wants(200, "all", "GET", "/v1/tasks/task", "").header.Get("ETag")
	answers := make([]reply, racers)
	race(func(i int) {
		answers[i] = s.send("all", "PATCH", "/v1/tasks/task", fmt.Sprintf(`{"priority": %d}`, i+1), "If-Match", tag)
	})
	edits := 0
	for _, got := range answers {
		switch {
		case got.status == 200:
			edits++
		case got.status != 412 && got.status != 409:
			t.Errorf("answer %d %s", got.status, got.text)
		}
	}
	if edits != 1 || len(s.lines("task")) != 2 {
		t.Errorf("%d edits, changes %q", edits, s.lines("task"))
	}
}
