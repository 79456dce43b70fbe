package cmd

import (
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/store/inspect"
	"github.com/tasktable/tasktable/store/when"
)

// filteredTasksSQL makes a dead letter, an archived one and a task that waits. The first two have a value in each
// field by which tasks are selected. It goes past the triggers, because a task of theirs takes a life to get there.
const filteredTasksSQL = `
BEGIN; SET LOCAL session_replication_role = replica;
INSERT INTO tasktable.scheduled_tasks (id, payload, type, queue, scheduled_at, revision, status, finished_at,
    archived_at, entity, tenant_id, group_key, spawned_by, parent_id, message)
SELECT name, '{"type": "MAIL", "order": {"id": 42}}', 'MAIL', 'mail', '2026-01-01 12:00Z', 1, 'FAILED',
    '2026-01-01 13:00Z', archived, 'event:42', 'acme', 'customer:42', 'first', 'nightly', 'no such host: 7'
FROM (VALUES ('x-dead', NULL::timestamptz), ('x-archived', '2026-01-02')) AS of (name, archived);
INSERT INTO tasktable.scheduled_tasks (id, payload, type, scheduled_at, revision, status, next_attempt_at,
    waiting_since) VALUES ('y-waiting', '{"type": "LOG"}', 'LOG', '2026-02-01', 1, 'QUEUED', '2026-02-02', '2026-02-01');
INSERT INTO tasktable.scheduled_tasks (id, payload, type, scheduled_at, revision, status, finished_at)
VALUES ('y-dead', '{"type": "LOG"}', 'LOG', '2026-02-01', 1, 'EXPIRED', '2026-02-02');
COMMIT`

// taskLists are the three places of a list.
type taskLists struct {
	fields    []inspect.FilterField
	path      string // in the API
	page      string // in the dashboard, with its other parameters
	command   []string
	want      string // the tasks that the rightFilters find
	wantOther map[string]string
}

// rightFilters has a value of each field, as all surfaces take it.
var rightFilters = map[string]string{
	"type": "MAIL", "status": "FAILED", "queue": "mail", "id_prefix": "x-", "message": "such host", "entity": "event:42",
	"tenant": "acme", "group_key": "customer:42", "spawned_by": "first", "parent": "nightly", "pattern": "no such host: *", "payload": "order.id=42",
	"scheduled_from": "2026-01-31T00:00:00Z", "scheduled_to": "2026-01-31T00:00:00Z",
	"finished_from": "2026-01-31T00:00:00Z", "finished_to": "2026-01-31T00:00:00Z", "archived": "true", "waiting": "true",
}

// wrongFilter returns a value that breaks the rule of the field, and the rule.
func wrongFilter(field inspect.FilterField) (wrong, rule string) {
	switch rule = field.Rule(); field.Kind {
	case inspect.KindTime:
		return "never", when.ErrTime.Error()
	case inspect.KindQueue:
		return strings.Repeat("q", 65), rule
	case inspect.KindNote, inspect.KindMatch:
		return strings.Repeat("x", inspect.MaxNote) + "=", rule
	case inspect.KindStatus, inspect.KindOn, inspect.KindEither:
		return "perhaps", rule
	default:
		return strings.Repeat("x", 513), rule
	}
}

// The API, the dashboard and the command line find the same tasks by each field, and refuse a wrong value with the same
// sentence.
func TestFiltersOfTasksAgree(t *testing.T) {
	t.Parallel()
	f := newTaskForms(t)
	if _, err := f.pool.Exec(t.Context(), filteredTasksSQL); err != nil {
		t.Fatal(err)
	}
	for _, lists := range []taskLists{
		{inspect.FilterFields(), "/v1/tasks", "/tasks?", []string{"tasks", "list"}, "x-archived x-dead", map[string]string{
			"scheduled_from": "y-dead y-waiting", "finished_from": "y-dead", "archived": "x-archived",
			"waiting": "y-waiting"}},
		{inspect.DeadLetterFields(), "/v1/dead-letters", "/dead?by=task&", []string{"dead", "list"}, "x-dead",
			map[string]string{"scheduled_from": "y-dead", "finished_from": "y-dead"}},
	} {
		for _, field := range lists.fields {
			want := lists.want
			if other, differs := lists.wantOther[field.Name]; differs {
				want = other
			}
			lists.agree(f, field, rightFilters[field.Name], want)
		}
	}
}

// The lists of recurring tasks have some of the fields, with the same rules.
func TestFiltersOfRecurringTasksAgree(t *testing.T) {
	t.Parallel()
	f := newTaskForms(t)
	for _, field := range inspect.FilterFields() {
		if !slices.Contains([]string{"type", "queue", "entity", "tenant"}, field.Name) {
			continue
		}
		wrong, rule := wrongFilter(field)
		path := "/v1/recurring?" + url.Values{field.Parameter: {wrong}}.Encode()
		page := "/recurring?" + url.Values{field.Name: {wrong}}.Encode()
		for surface, got := range map[string]string{
			"the API":       served(f.api, http.MethodGet, path, "", ""),
			"the dashboard": html.UnescapeString(served(f.dashboard, http.MethodGet, page, "", "")),
		} {
			if !strings.HasPrefix(got, "422") || !strings.Contains(got, field.Parameter+" "+rule) {
				t.Errorf("%s about %s: no %s in: %s", surface, field.Name, rule, got)
			}
		}
		command := []string{"recurring", "list", "--" + field.Flag() + "=" + wrong}
		runFixed(t, f.variables, command...).want(t, exitUsage, "--"+field.Flag()+" ", rule)
	}
}

// agree gives each surface the right value and a wrong one.
func (l taskLists) agree(f taskForms, field inspect.FilterField, right, want string) {
	f.t.Helper()
	wrong, rule := wrongFilter(field)
	api := func(value string) string {
		return served(f.api, http.MethodGet, l.path+"?"+url.Values{field.Parameter: {value}}.Encode(), "", "")
	}
	page := func(value string) string {
		path := l.page + url.Values{field.Name: {value}}.Encode()
		return html.UnescapeString(served(f.dashboard, http.MethodGet, path, "", ""))
	}
	run := func(value string) result {
		return runFixed(f.t, f.variables, append(l.command, "--output=json", "--"+field.Flag()+"="+value)...)
	}
	listed := run(right)
	listed.want(f.t, exitOK)
	for surface, got := range map[string]string{
		"the API":          idsIn(f.t, strings.TrimPrefix(api(right), "200 ")),
		"the dashboard":    linkedIDs(page(right)),
		"the command line": idsIn(f.t, `{"tasks": `+listed.stdout+`}`),
	} {
		if got != want {
			f.t.Errorf("%s by %s %q: %q, want %q", surface, field.Name, right, got, want)
		}
	}
	if got := page(wrong); !strings.HasPrefix(got, "422") || !strings.Contains(got, rule) {
		f.t.Errorf("the dashboard about %s: no %s in: %s", field.Name, rule, got)
	}
	run(wrong).want(f.t, exitUsage, "--"+field.Flag()+" ", rule)
	if field.Kind == inspect.KindTime {
		rule = "must be a time such as 2027-01-31T09:30:00Z" // the API takes only RFC 3339
	}
	if got := api(wrong); !strings.HasPrefix(got, "422") || !strings.Contains(got, "query."+field.Parameter+" "+rule) {
		f.t.Errorf("the API about %s: %s, want %s", field.Name, got, rule)
	}
}

// idsIn returns the ids of the tasks in an answer of the API, sorted.
func idsIn(t *testing.T, answer string) string {
	t.Helper()
	var list struct{ Tasks []struct{ ID string } }
	if err := json.Unmarshal([]byte(answer), &list); err != nil {
		t.Errorf("%v: %s", err, answer)
	}
	ids := make([]string, len(list.Tasks))
	for i, task := range list.Tasks {
		ids[i] = task.ID
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}

var taskLink = regexp.MustCompile(`href="/tasks/([xy]-[a-z]+)"`)

// linkedIDs returns the ids of the tasks to which a page links, sorted.
func linkedIDs(page string) string {
	var ids []string
	for _, link := range taskLink.FindAllStringSubmatch(page, -1) {
		ids = append(ids, link[1])
	}
	slices.Sort(ids)
	return strings.Join(slices.Compact(ids), " ")
}
