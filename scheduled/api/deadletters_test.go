package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// deadLetters makes the dead letters 1 to 4, which ended in this order, one that is archived, and other tasks.
func deadLetters(t *testing.T) *service {
	s := newService(t)
	for id, status := range map[string]store.Status{
		"1": "FAILED", "2": "EXPIRED", "3": "FAILED", "4": "EXPIRED", "archived": "FAILED", "done": "COMPLETED", "live": "QUEUED",
	} {
		s.make(id, status)
	}
	s.asEngine(`UPDATE tasktable.scheduled_tasks SET finished_at = ('2000-01-0' || id || 'Z')::timestamptz WHERE length(id) = 1`)
	s.asEngine(`UPDATE tasktable.scheduled_tasks SET message = 'other' WHERE id = '3'`)
	s.wants(200, "operator", "POST", "/v1/dead-letters/archive", `{"ids": ["archived"]}`)
	return s
}

func TestListDeadLetters(t *testing.T) {
	t.Parallel()
	s := deadLetters(t)
	for query, want := range map[string]string{
		"": "1 2 3 4", "?latest_first=true": "4 3 2 1", "?status=EXPIRED": "2 4", "?message=other": "3", "?limit=1": "1",
		"?page=2&limit=2": "3 4", "?type=NONE": "", "?finished_from=2000-01-03T00:00:00Z": "3 4",
	} {
		if got, _ := s.list("/v1/dead-letters" + query); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	s.refusesQueries("reader", "/v1/dead-letters", map[string]string{
		"order=id":         "query.order: unknown query parameter",
		"status=COMPLETED": "status must be one or several of FAILED, EXPIRED",
		"cursor=a":         "cursor must be the next_cursor of a page before",
	})
}

func TestGroupDeadLetters(t *testing.T) {
	t.Parallel()
	s := deadLetters(t)
	s.asEngine(`UPDATE tasktable.scheduled_tasks SET message = 'shared ' || translate(id, '13', 'ac'), entity = 'order:' || id WHERE id IN ('1', '3')`)
	s.asEngine(`UPDATE tasktable.scheduled_tasks SET message = repeat('x', 60) || id, tenant_id = 'acme' WHERE id IN ('2', '4')`)
	for query, want := range map[string]string{
		"":                          "2 EXPIRED 1 FAILED 1 FAILED",
		"?limit=1":                  "2 EXPIRED and more",
		"?limit=3":                  "2 EXPIRED 1 FAILED 1 FAILED",
		"?status=FAILED":            "1 FAILED 1 FAILED",
		"?by=entity":                "2 EXPIRED of event:1 1 FAILED of order:3 1 FAILED of order:1",
		"?by=tenant":                "2 EXPIRED of acme 1 FAILED 1 FAILED",
		"?by=tenant&tenant_id=acme": "2 EXPIRED of acme",
		"?pattern=shared%20a":       "1 FAILED",
		"?type=NONE":                "",
	} {
		answer := answerTo[struct {
			Groups []inspect.Group
			More   bool
		}](s, "/v1/dead-letters/groups"+query)
		var texts []string
		for _, group := range answer.Groups {
			text := fmt.Sprint(group.Count, " ", group.Status)
			if group.Entity != nil || group.TenantID != nil {
				text += " of " + deref(group.Entity) + deref(group.TenantID)
			}
			texts = append(texts, text)
			if group.Type != "TEST" || group.Oldest == nil || group.Latest == nil || group.Example == "" {
				t.Errorf("%s: group %+v", query, group)
			}
		}
		if answer.More {
			texts = append(texts, "and more")
		}
		if text := strings.Join(texts, " "); text != want || answer.Groups == nil {
			t.Errorf("%s: %s, want %s", query, text, want)
		}
	}
	s.refusesQueries("reader", "/v1/dead-letters/groups", map[string]string{
		"by=queue": "query.by: expected value to be one of", "status=COMPLETED": "status must be one or several of FAILED, EXPIRED",
		"cursor=a": "query.cursor: unknown query parameter", "limit=0": "query.limit: expected number >= 1",
	})
}

// Of very many dead letters the groups count those that ended last, and the answer says so.
func TestGroupManyDeadLetters(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.exec(fmt.Sprintf(`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER;
INSERT INTO tasktable.scheduled_tasks (id, type, payload, status, attempt, revision, message, finished_at)
SELECT 'many-' || n, 'MANY', '{"type": "MANY"}', 'FAILED', 5, n, 'broken', now() FROM generate_series(1, %d) AS n;
ALTER TABLE tasktable.scheduled_tasks ENABLE TRIGGER USER`, inspect.MaxGrouped+1))
	answer := answerTo[struct {
		Groups    []inspect.Group
		Shortened bool
	}](s, "/v1/dead-letters/groups")
	if len(answer.Groups) != 1 || answer.Groups[0].Count != inspect.MaxGrouped || !answer.Shortened {
		t.Errorf("%+v", answer)
	}
}

func TestActOnDeadLetters(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ body, retried, archived string }{
		"ids": {`{"ids": ["3", "1"]}`, "1 queued, 3 queued", "1 archived, 3 archived"},
		"others": {`{"ids": ["done", "live", "gone", "2"]}`, "2 queued, done unchanged, live unchanged, gone unchanged",
			"2 archived, done unchanged, live unchanged, gone unchanged"},
		"no dead ones":     {`{"ids": ["done", "live"]}`, "done unchanged, live unchanged", "done unchanged, live unchanged"},
		"all":              {`{"filter": {}}`, "1 queued, 2 queued, 3 queued, 4 queued", "1 archived, 2 archived, 3 archived, 4 archived"},
		"a filter":         {`{"filter": {"status": ["EXPIRED"]}}`, "2 queued, 4 queued", "2 archived, 4 archived"},
		"the first":        {`{"filter": {}, "limit": 1}`, "1 queued", "1 archived"},
		"a message":        {`{"filter": {"message": "other", "queue": "default"}}`, "3 queued", "3 archived"},
		"a pattern":        {`{"filter": {"pattern": "other"}}`, "3 queued", "3 archived"},
		"none of a filter": {`{"filter": {"type": "NONE"}}`, "", ""},
		"empty ids":        {`{"filter": {"id_prefix": "4"}, "ids": []}`, "4 queued", "4 archived"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := deadLetters(t)
			got := s.wants(200, "operator", "POST", "/v1/dead-letters/archive", strings.Replace(c.body, "{", `{"note": "seen", `, 1))
			if outcomes := s.outcomes(got); outcomes != c.archived {
				t.Errorf("archived %s, want %s", outcomes, c.archived)
			}
			if note := value[int64](s, `SELECT count(*) FROM tasktable.scheduled_tasks WHERE archived_note = 'seen'`); note !=
				int64(strings.Count(c.archived, "archived")) {
				t.Errorf("%d tasks have the note", note)
			}
			s.asEngine(`UPDATE tasktable.scheduled_tasks SET archived_at = NULL, archived_note = NULL WHERE id <> 'archived'`)
			got = s.wants(200, "operator", "POST", "/v1/dead-letters/retry", c.body)
			if outcomes := s.outcomes(got); outcomes != c.retried {
				t.Errorf("retried %s, want %s", outcomes, c.retried)
			}
			queued := value[int64](s, `SELECT count(*) FROM tasktable.scheduled_tasks WHERE status = 'QUEUED' AND id <> 'live'`)
			if queued != int64(strings.Count(c.retried, "queued")) {
				t.Errorf("%d tasks are queued", queued)
			}
		})
	}
}

func TestRetryDeadLettersOverATime(t *testing.T) {
	t.Parallel()
	s := deadLetters(t)
	s.wants(200, "operator", "POST", "/v1/dead-letters/retry", `{"filter": {}, "over": 4000}`)
	gaps := value[string](s, `SELECT string_agg((extract(epoch FROM gap) / 1000)::int::text, ' ') FROM (
		SELECT next_attempt_at - lag(next_attempt_at) OVER (ORDER BY id) AS gap
		FROM tasktable.scheduled_tasks WHERE length(id) = 1) AS g`)
	if gaps != "1 1 1" {
		t.Errorf("between them are %s thousand seconds", gaps)
	}
}

func TestActOnDeadLettersRefuses(t *testing.T) {
	t.Parallel()
	s := deadLetters(t)
	before := s.everything()
	s.refuses("operator", "POST", "/v1/dead-letters/retry", map[string]string{
		`{"filter": {}, "over": 86401}`: "body.over: expected number <= 86400",
		`{"filter": {}, "over": -1}`:    "over must be from 0 to 24h0m0s",
		`{"filter": {}, "over": "10m"}`: "body.over: expected number",
	})
	s.wants(422, "operator", "POST", "/v1/dead-letters/archive", `{"filter": {}, "over": 1}`)
	many := `{"ids": ["1"` + strings.Repeat(`, "1"`, 1000) + `]}`
	for _, verb := range []string{"retry", "archive"} {
		s.refuses("operator", "POST", "/v1/dead-letters/"+verb, map[string]string{
			`{"ids": ["1"], "filter": {}}`:        "body must have either ids or filter; an empty filter selects all",
			`{}`:                                  "body must have either ids or filter; an empty filter selects all",
			`{"ids": []}`:                         "body must have either ids or filter; an empty filter selects all",
			`{"filter": null}`:                    "body.filter: must not be null",
			`{"filter": {"status": ["QUEUED"]}}`:  "filter.status must be one or several of FAILED, EXPIRED",
			`{"filter": {"archived": true}}`:      "body.filter.archived: unexpected property",
			`{"ids": ["1", ""]}`:                  "id must be 1 to 512 bytes",
			`{"ids": ["1", "\u0000"]}`:            "id must be at most 512 bytes of UTF-8",
			`{"ids": "1"}`:                        "body.ids: expected array",
			`{"ids": ["1"], "limit": 0}`:          "body.limit: expected number >= 1",
			`{"filter": {}, "limit": 1001}`:       "body.limit: expected number <= 1000",
			`{"filter": {"type": "\u0000"}}`:      "type must be",
			`{"filter": {"finished_to": "soon"}}`: "body.filter.finished_to: expected a time such as",
			many:                                  "body.ids: expected array length <= 1000",
		})
	}
	s.says(s.wants(422, "operator", "POST", "/v1/dead-letters/archive", `{"ids": ["1"], "note": "\u0000"}`), "note must be UTF-8 without NUL")
	s.hasNotChanged(before)
}

// An empty text is what a client sends that has lost the value. It must not select all.
func TestEmptyFilterFieldsAreRefused(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.make("dead", store.StatusFailed)
	before := s.everything()
	for _, path := range []string{"/v1/dead-letters/retry", "/v1/dead-letters/archive"} {
		for _, field := range []string{"type", "queue", "entity", "tenant_id", "id_prefix", "spawned_by", "message", "pattern", "status"} {
			value := `""`
			if field == "status" {
				value = "[]"
			}
			got := s.wants(422, "all", "POST", path, `{"filter": {"`+field+`": `+value+`}}`)
			if s.says(got, "filter."+field); got.field("code") != "invalid" {
				t.Errorf("%s: %s", field, got.text)
			}
		}
	}
	s.hasNotChanged(before)
}
