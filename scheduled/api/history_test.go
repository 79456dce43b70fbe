package api_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/api"
	"github.com/tasktable/tasktable/store"
)

// failing runs the task "task" twice. It fails both times.
func failing(t *testing.T) *service {
	s := newService(t)
	s.wants(201, "all", "PUT", "/v1/tasks/task", strings.Replace(base, "{", `{"max_attempts": 2, `, 1))
	s.wants(200, "scheduler", "PATCH", "/v1/tasks/task", `{"payload": {"n": 12345678901234567890}}`)
	s.runDue(errors.New("no connection"),
		time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2100, 1, 1, 0, 1, 0, 0, time.UTC))
	return s
}

func TestExecutionsAndChanges(t *testing.T) {
	t.Parallel()
	s := failing(t)
	s.wants(200, "operator", "POST", "/v1/dead-letters/archive", `{"ids": ["task"]}`)
	executions := func(query string) string {
		var words []string
		for _, one := range answerTo[api.Executions](s, "/v1/tasks/task/executions"+query).Executions {
			words = append(words, fmt.Sprint(one.TaskID, " ", one.Outcome, " ", one.Attempt, " ", *one.Error))
		}
		return strings.Join(words, ", ")
	}
	changes := func(query string) string {
		var words []string
		for _, one := range answerTo[api.Changes](s, "/v1/tasks/task/changes"+query).Changes {
			words = append(words, one.Verb+" "+one.Outcome+" "+one.ChangedBy)
		}
		return strings.Join(words, ", ")
	}
	for query, want := range map[string][2]string{
		"": {"task RETRIED 1 no connection, task FAILED 2 no connection",
			"schedule created svc, schedule rescheduled scheduler, archive archived operator"},
		"?limit=1": {"task FAILED 2 no connection", "archive archived operator"},
	} {
		if got := executions(query); got != want[0] {
			t.Errorf("executions%s: %s\nwant %s", query, got, want[0])
		}
		if got := changes(query); got != want[1] {
			t.Errorf("changes%s: %s\nwant %s", query, got, want[1])
		}
	}
	for status, want := range map[string]string{
		"FAILED": "task FAILED 2 no connection", "RETRIED": "task RETRIED 1 no connection", "LOST": "",
	} {
		if got := executions("?status=" + status + "&limit=10"); got != want {
			t.Errorf("%s: %s, want %s", status, got, want)
		}
	}
	s.wants(422, "reader", "GET", "/v1/tasks/task/executions?status=QUEUED", "")
	text := s.wants(200, "reader", "GET", "/v1/tasks/task/changes", "").text
	if !strings.Contains(text, `12345678901234567890`) {
		t.Errorf("a large number lost its digits: %s", text)
	}
	// The history of a deleted task stays. A task that never was has none.
	s.wants(200, "all", "DELETE", "/v1/tasks/task", "")
	if got := executions(""); !strings.Contains(got, "FAILED") {
		t.Errorf("executions of a deleted task: %s", got)
	}
	if got := changes("?limit=1"); got != "delete deleted svc" {
		t.Errorf("changes of a deleted task: %s", got)
	}
	for path, want := range map[string]string{"executions": `{"executions":[]}`, "changes": `{"changes":[]}`} {
		if got := s.wants(200, "reader", "GET", "/v1/tasks/none/"+path, ""); got.text != want {
			t.Errorf("%s of no task: %s", path, got.text)
		}
		s.says(s.wants(422, "reader", "GET", "/v1/tasks/task/"+path+"?limit=0", ""), "query.limit: expected number >= 1")
	}
}

func TestWhy(t *testing.T) {
	t.Parallel()
	s := failing(t)
	why := answerTo[api.Why](s, "/v1/tasks/task/why")
	if !strings.Contains(why.Sentence, "no connection") || why.Task == nil || len(why.Story) < 3 {
		t.Errorf("why: %+v", why)
	}
	s.wants(200, "all", "DELETE", "/v1/tasks/task", "")
	why = answerTo[api.Why](s, "/v1/tasks/task/why")
	if !strings.Contains(why.Sentence, "deleted") || why.Task != nil {
		t.Errorf("why of a deleted task: %+v", why)
	}
	s.says(s.wants(404, "reader", "GET", "/v1/tasks/tusk/why", ""), "no such task")
	s.says(s.wants(422, "reader", "GET", "/v1/tasks/%00/why", ""), "id must be")
}

// Durations are seconds everywhere, also in the story.
func TestWhyInSeconds(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.make("task", store.StatusCompleted)
	s.exec(`INSERT INTO tasktable.scheduled_task_executions
		(fence, task_id, type, revision, attempt, scheduled_at, due_at, started_at, finished_at, outcome)
		SELECT 1000, 'task', 'TEST', 1, 1, at, at, at, at + interval '2.5 seconds', 'COMPLETED' FROM clock_timestamp() AS at`)
	got := s.wants(200, "reader", "GET", "/v1/tasks/task/why", "")
	if !strings.Contains(got.text, `{"name":"took","value":2.5}`) {
		t.Errorf("the story does not say that the attempt took 2.5 s: %s", got.text)
	}
}

// A task is read together with its latest attempts.
func TestTaskWithExecutions(t *testing.T) {
	t.Parallel()
	s := failing(t)
	read := func(path string) string {
		task := answerTo[api.Task](s, path)
		text := string(task.Status)
		for _, one := range task.Executions {
			text += fmt.Sprint(", ", one.Outcome, " ", one.Attempt)
		}
		return text
	}
	for path, want := range map[string]string{
		"/v1/tasks/task":                            "FAILED",
		"/v1/tasks/task?include=executions":         "FAILED, RETRIED 1, FAILED 2",
		"/v1/tasks/task?include=executions&wait=1s": "FAILED, RETRIED 1, FAILED 2",
	} {
		if got := read(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	s.exec(`INSERT INTO tasktable.scheduled_task_executions
			(fence, task_id, type, revision, attempt, scheduled_at, due_at, started_at, finished_at, outcome)
		SELECT 1000000 + n, 'task', 'TEST', 1, n, now(), now(), now(), now() + n * interval '1 second', 'RETRIED'
		FROM generate_series(3, 40) AS n`)
	if got := strings.Count(read("/v1/tasks/task?include=executions"), "RETRIED"); got != 20 {
		t.Errorf("%d attempts , want 20", got)
	}
	s.make("new", store.StatusQueued)
	if got := s.wants(200, "reader", "GET", "/v1/tasks/new?include=executions", ""); !strings.Contains(got.text,
		`"executions":[]`) {
		t.Errorf("a task without attempts: %s", got.text)
	}
	s.says(s.wants(422, "reader", "GET", "/v1/tasks/task?include=changes", ""), "query.include")
}
