package api_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/scheduled/api"
	"github.com/tasktable/tasktable/store"
)

// list reads a page, and returns the ids and the next cursor.
func (s *service) list(path string) (ids, next string) {
	s.Helper()
	got := answerTo[api.TaskPage](s, path)
	words := make([]string, len(got.Tasks))
	for i, task := range got.Tasks {
		words[i] = task.ID
	}
	return strings.Join(words, " "), got.NextCursor
}

// listed makes tasks that differ in one field each.
func listed(t *testing.T) *service {
	s := newService(t)
	for _, status := range []store.Status{"QUEUED", "PAUSED", "EXECUTING", "COMPLETED", "FAILED", "EXPIRED"} {
		s.make(strings.ToLower(string(status)), status)
	}
	for id, field := range map[string]string{
		"mail": `"queue": "mail"`, "tenant": `"tenant_id": "acme"`, "entity": `"entity": "event:ä"`,
		"later": `"scheduled_at": "2100-01-02T00:00:00Z"`,
	} {
		var content map[string]any
		for _, part := range []string{base, "{" + field + "}"} { // the field replaces that of base
			if err := json.Unmarshal([]byte(part), &content); err != nil {
				t.Fatal(err)
			}
		}
		body, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		s.wants(201, "all", "PUT", pathOf(id), string(body))
	}
	s.wants(201, "all", "PUT", "/v1/tasks/other", strings.Replace(base, "TEST", "OTHER", 1))
	s.wants(200, "all", "POST", "/v1/dead-letters/archive", `{"ids": ["expired"]}`)
	s.asEngine(`UPDATE tasktable.scheduled_tasks SET spawned_by = 'completed' WHERE id = 'other'`)
	s.asEngine(`UPDATE tasktable.scheduled_tasks SET parent_id = 'nightly' WHERE id = 'mail'`)
	s.asEngine(`UPDATE tasktable.scheduled_tasks SET waiting_since = clock_timestamp()
		WHERE id IN ('later', 'completed')`)
	s.asEngine(`UPDATE tasktable.scheduled_tasks SET finished_at = CASE id WHEN 'completed' THEN '2000-01-01Z'::timestamptz
		WHEN 'failed' THEN '2000-01-02Z' ELSE '2000-01-03Z' END WHERE finished_at IS NOT NULL`)
	return s
}

func TestListFilters(t *testing.T) {
	t.Parallel()
	s := listed(t)
	for query, want := range map[string]string{
		"":                                    "completed entity executing expired failed mail other paused queued tenant later",
		"type=OTHER":                          "other",
		"status=PAUSED":                       "paused",
		"status=FAILED&status=EXPIRED":        "expired failed",
		"status=FAILED,EXPIRED":               "expired failed",
		"status=failed":                       "failed",
		"payload=n%3D1&type=OTHER":            "other",
		"payload=n%3D2":                       "",
		"parent_id=nightly":                   "mail",
		"queue=mail":                          "mail",
		"entity=event%3A%C3%A4":               "entity",
		"tenant_id=acme":                      "tenant",
		"id_prefix=e&order=id":                "entity executing expired",
		"id_prefix=%25":                       "",
		"spawned_by=completed":                "other",
		"message=it+was&order=id":             "completed expired failed",
		"message=It+was":                      "",
		"scheduled_from=2100-01-02T00:00:00Z": "later",
		"scheduled_from=2100-01-02T01:00:00%2B01:00&scheduled_to=2100-01-02T00:00:00.000001Z": "later",
		"scheduled_to=2100-01-01T00:00:00Z":                                                   "",
		"finished_from=2000-01-02T00:00:00Z&order=id":                                         "expired failed",
		"finished_to=2000-01-02T00:00:00Z":                                                    "completed",
		"finished_from=2000-01-02T00:00:00Z&finished_to=2000-01-03T00:00:00Z":                 "failed",
		"waiting=true":                                "later",
		"waiting=false&type=OTHER":                    "other",
		"pattern=it+was+so&order=id":                  "completed expired failed",
		"pattern=it+was":                              "",
		"archived=true":                               "expired",
		"archived=false&status=FAILED&status=EXPIRED": "failed",
		"order=finished_at":                           "completed failed expired",
		"order=finished_at&latest_first=true":         "expired failed completed",
		"order=id&limit=2":                            "completed entity",
		"order=id&latest_first=1&limit=2":             "tenant queued",
		"order=id&page=2&limit=3":                     "expired failed later",
		"order=id&page=4&limit=3":                     "queued tenant",
		"order=id&page=5&limit=3":                     "",
		"order=id&page=100&limit=1":                   "",
		"type=TEST&queue=default&status=QUEUED&entity=event:1&tenant_id=acme": "tenant",
	} {
		s.run(query, func(s *service) {
			got, _ := s.list("/v1/tasks?" + query)
			if got != want {
				s.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestListRefuses(t *testing.T) {
	t.Parallel()
	s := listed(t)
	_, next := s.list("/v1/tasks?order=id&limit=2")
	for query, says := range map[string]string{
		"status=DONE":                         "query.status must be one or several of QUEUED, EXECUTING",
		"status=QUEUED,,PAUSED":               "query.status must be one or several of",
		"order=revision":                      "query.order: expected value to be one of",
		"archived=yes":                        "query.archived must be true or false",
		"latest_first=maybe":                  "query.latest_first: invalid boolean",
		"limit=0":                             "query.limit: expected number >= 1",
		"limit=1001":                          "query.limit: expected number <= 1000",
		"limit=1e2":                           "query.limit: invalid integer",
		"limit=99999999999999999999":          "query.limit: invalid integer",
		"page=0":                              "query.page: expected number >= 1",
		"page=101":                            "query.page: expected number <= 100",
		"scheduled_from=yesterday":            "query.scheduled_from must be a time such as",
		"finished_to=2000-01-01":              "query.finished_to must be a time such as",
		"type=%00":                            "query.type must be 2 to 127 letters",
		"message=%00":                         "query.message must be at most 4096 bytes of UTF-8 without NUL",
		"entity=%FF":                          "entity must be at most 512 bytes of UTF-8",
		"tenant=acme":                         "query.tenant: unknown query parameter",
		"Type=TEST":                           "query.Type: unknown query parameter",
		"cursor=abc":                          "cursor must be the next_cursor of a page before",
		"cursor=" + next[1:]:                  "cursor must be the next_cursor of a page before",
		"cursor=e30":                          "cursor must be the next_cursor of a page before",
		"cursor=" + strings.Repeat("a", 2049): "query.cursor: expected length <= 2048",
		"order=finished_at&cursor=" + encodedCursor:         "after must be a task that has ended",
		"cursor=" + url.QueryEscape(strings.Repeat("=", 9)): "cursor must be the next_cursor of a page before",
	} {
		s.run(query, func(s *service) { s.says(s.wants(422, "reader", "GET", "/v1/tasks?"+query, ""), says) })
	}
}

// Many tasks of the same time are on exactly one page each, forwards and backwards, in every order.
func TestCursors(t *testing.T) {
	t.Parallel()
	s := newService(t)
	var want []string
	var tasks []string
	for i := range 23 {
		id := fmt.Sprintf("%02d", i)
		want = append(want, id)
		tasks = append(tasks, fmt.Sprintf(`{"id": %q, "payload": {"type": "TEST"}, "scheduled_at": "2100-01-01T00:0%d:00.123456Z"}`, id, i/8))
	}
	s.wants(200, "all", "POST", "/v1/tasks/bulk", `{"tasks": [`+strings.Join(tasks, ",")+`]}`)
	s.asEngine(`UPDATE tasktable.scheduled_tasks SET status = 'FAILED', next_attempt_at = NULL,
		finished_at = scheduled_at + interval '1 year'`)
	for _, path := range []string{
		"/v1/tasks?limit=5", "/v1/tasks?limit=5&order=finished_at", "/v1/tasks?limit=5&order=id", "/v1/dead-letters?limit=5",
	} {
		for _, backwards := range []bool{false, true} {
			wanted := strings.Join(want, " ")
			reading := path
			if backwards {
				words := slices.Clone(want)
				slices.Reverse(words)
				wanted, reading = strings.Join(words, " "), path+"&latest_first=true"
			}
			var pages []string
			for next := "first"; next != ""; {
				var ids string
				cursor := ""
				if next != "first" {
					cursor = "&cursor=" + next
				}
				ids, next = s.list(reading + cursor)
				pages = append(pages, ids)
			}
			if got := strings.Join(pages, " "); got != wanted || len(pages) != 5 {
				t.Errorf("%s: %d pages %s", reading, len(pages), got)
			}
		}
	}
	// A page goes on also if its last task was deleted meanwhile.
	_, next := s.list("/v1/tasks?order=id&limit=5")
	s.wants(200, "all", "DELETE", "/v1/tasks/04", "")
	if ids, _ := s.list("/v1/tasks?order=id&limit=2&cursor=" + next); ids != "05 06" {
		t.Errorf("after a deleted task: %s", ids)
	}
	// The last page has no cursor, also if it is full.
	if ids, next := s.list("/v1/tasks?limit=22&order=id"); len(strings.Fields(ids)) != 22 || next != "" {
		t.Errorf("the last page %s has the next_cursor %q", ids, next)
	}
}
