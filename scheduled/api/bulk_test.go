package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/scheduled/api"
)

// outcomes returns the ids and outcomes of an answer.
func (s *service) outcomes(got reply) string {
	s.Helper()
	var answer api.Receipts
	got.json(s.T, &answer)
	words := make([]string, len(answer.Receipts))
	for i, receipt := range answer.Receipts {
		words[i] = receipt.ID + " " + string(receipt.Outcome)
	}
	return strings.Join(words, ", ")
}

// bulk is the body of a call that schedules so many tasks. The last one has the given priority.
func bulk(tasks, lastPriority int) string {
	texts := make([]string, tasks)
	for i := range texts {
		priority := 0
		if i == tasks-1 {
			priority = lastPriority
		}
		texts[i] = fmt.Sprintf(`{"id": "%04d", "payload": {"type": "TEST", "n": %d}, "priority": %d}`, i, i, priority)
	}
	return `{"tasks": [` + strings.Join(texts, ",") + `]}`
}

func TestBulk(t *testing.T) {
	t.Parallel()
	s := newService(t)
	count := func() int64 { return value[int64](s, `SELECT count(*) FROM tasktable.scheduled_tasks`) }
	for name, c := range map[string]struct {
		status     int
		body, says string
	}{
		"the last is invalid":    {422, bulk(1000, 101), "body.tasks[999].priority: must be between -100 and 100"},
		"one too many":           {422, bulk(1001, 0), "body.tasks: expected array length <= 1000"},
		"none":                   {422, `{"tasks": []}`, "body.tasks: expected array length >= 1"},
		"null":                   {422, `{"tasks": null}`, "body.tasks: must not be null"},
		"one is null":            {422, `{"tasks": [null]}`, "body.tasks[0]: must not be null"},
		"NUL in an id":           {422, `{"tasks": [` + hello + `, {"id": "a\u0000", "payload": {"type": "LOG"}}]}`, "task 2 of 2: id must be"},
		"the store refuses one":  {422, `{"tasks": [` + hello + `, {"payload": {"type": "LOG"}, "cron": "0 25 * * *"}]}`, "task 2 of 2: cron"},
		"a zero time":            {422, `{"tasks": [` + hello + `, {"payload": {"type": "LOG"}, "scheduled_at": "0001-01-01T00:00:00Z"}]}`, "task 2 of 2: scheduled_at must be after"},
		"a recurring one is not": {422, `{"tasks": [` + hello + `, {"payload": {"type": "LOG"}, "time_zone": "UTC"}]}`, "task 2 of 2: cron is missing"},
	} {
		s.run(name, func(s *service) {
			s.says(s.wants(c.status, "all", "POST", "/v1/tasks/bulk", c.body), c.says)
			if tasks := count(); tasks != 0 {
				s.Errorf("%d tasks are scheduled, want none", tasks)
			}
		})
	}
	var answer api.Receipts
	s.wants(200, "all", "POST", "/v1/tasks/bulk", bulk(1000, 100)).json(t, &answer)
	if len(answer.Receipts) != 1000 || count() != 1000 {
		t.Fatalf("%d receipts and %d tasks, want 1000 of each", len(answer.Receipts), count())
	}
	for i, receipt := range answer.Receipts {
		if receipt.ID != fmt.Sprintf("%04d", i) || receipt.Outcome != "created" || receipt.Revision == 0 {
			t.Errorf("receipt %d: %+v", i, receipt)
		}
	}
	mixed := `{"tasks": [{"id": "0000", "payload": {"type": "TEST", "n": 0}}, {"id": "b", "payload": {"type": "TEST"}},
		{"id": "0001", "payload": {"type": "TEST", "n": 2}}, {"id": "b", "payload": {"type": "TEST"}, "priority": 1}]}`
	got := s.outcomes(s.wants(200, "all", "POST", "/v1/tasks/bulk", mixed))
	if want := "0000 unchanged, b created, 0001 rescheduled, b rescheduled"; got != want {
		t.Errorf("outcomes %s, want %s", got, want)
	}
	if row := s.row("b"); row.Priority != 1 {
		t.Errorf("the priority of b is %d, want that of the later one, 1", row.Priority)
	}
	s.wants(200, "all", "POST", "/v1/tasks/bulk", `{"tasks": [`+hello+`]}`)
	if tasks := count(); tasks != 1002 {
		t.Errorf("%d tasks, want 1002, because one without an id is new", tasks)
	}
}
