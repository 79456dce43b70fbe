package api_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/api"
	"github.com/tasktable/tasktable/store"
)

func TestPauseAndResumeAQueue(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.make("task", store.StatusQueued)
	pauses := func() string {
		return value[string](s, `SELECT coalesce(string_agg(concat_ws(' ', scope, name, paused_by,
			ends_at AT TIME ZONE 'UTC', reason), ','), '') FROM tasktable.pauses
			WHERE ends_at IS NULL OR ends_at > clock_timestamp()`)
	}
	for _, c := range []struct{ verb, queue, body, outcome, pauses string }{
		{"pause", "mail", ``, "paused", "queue mail svc"},
		{"pause", "mail", ``, "unchanged", "queue mail svc"},
		{"pause", "mail", `{"reason": "repair", "until": "2100-01-01T01:00:00+01:00"}`, "paused", "queue mail svc 2100-01-01 00:00:00 repair"},
		{"pause", "mail", `{}`, "paused", "queue mail svc"},
		{"resume", "mail", ``, "queued", ""},
		{"resume", "mail", ``, "unchanged", ""},
		{"pause", "default", `{"reason": ""}`, "paused", "queue default svc"},
	} {
		got := s.wants(200, "all", "POST", "/v1/queues/"+c.queue+"/"+c.verb, c.body)
		if got.text != `{"queue":"`+c.queue+`","outcome":"`+c.outcome+`"}` || pauses() != c.pauses {
			t.Errorf("%s %s %s: %s, pauses %q; want %q", c.verb, c.queue, c.body, got.text, pauses(), c.pauses)
		}
	}
	for path, says := range map[string]string{
		"No%20Queue/pause": "queue must be 1 to 64 of a-z", "%00/resume": "queue must be 1 to 64 of a-z",
		strings.Repeat("q", 65) + "/pause": "queue must be 1 to 64 of a-z",
	} {
		s.says(s.wants(422, "all", "POST", "/v1/queues/"+path, ""), says)
	}
	s.refuses("all", "POST", "/v1/queues/mail/pause", map[string]string{
		`{"until": "2020-01-01T00:00:00Z"}`: "until must be a time to come", // such a pause would hold nothing back
		`{"until": "soon"}`:                 "body.until: expected a time such as", `{"reason": "\u0000"}`: "reason must be UTF-8 without NUL",
		`{"reason": "` + strings.Repeat("r", 513) + `"}`: "body.reason: expected length <= 512", `{"name": "a"}`: "body.name: unexpected property",
	})
}

// step is a call on one of several things, its outcome, and what the list then has of the thing. "" is an empty list.
type step struct{ method, path, body, outcome, listed string }

// takes makes calls on the thing of a path, and compares the receipts, the list, and the thing if it can be read alone.
func (s *service) takes(things, path, name string, steps []step) {
	s.Helper()
	for _, c := range append([]step{{"DELETE", "", "", "absent", ""}}, steps...) {
		got := s.wants(200, "all", c.method, "/v1/"+things+path+c.path, c.body).text
		listed := s.wants(200, "reader", "GET", "/v1/"+things, "").text
		if want := `{` + name + `,"outcome":"` + c.outcome + `"}`; got != want || !strings.Contains(listed, c.listed) ||
			(c.listed == "") != (listed == `{"`+things+`":[]}`) {
			s.Errorf("%s %s: %s, then %s; want %s, %s", c.method, c.body, got, listed, want, c.listed)
		}
		one := s.call("reader", "GET", "/v1/"+things+path, "")
		if one.status == 200 && listed != `{"`+things+`":[`+one.text+`]}` {
			s.Errorf("one: %s, all %s", one.text, listed)
		}
	}
}

func TestLimitsOverHTTP(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.takes("limits", "/a", `"name":"a"`, []step{
		{"PUT", "", `{"max_running": 5, "type": "CHARGE"}`, "created", `"name":"a","type":"CHARGE","max_running":5,"running":0`},
		{"PUT", "", `{"max_running": 5, "type": "CHARGE"}`, "unchanged", `"name":"a","type":"CHARGE","max_running":5,"running":0`},
		{"PUT", "", `{"rate": 100, "rate_interval": 60, "burst": 20, "queue": "mail"}`, "changed",
			`"name":"a","queue":"mail","rate":100,"rate_interval":60,"burst":20,"next_start_at"`},
		{"PUT", "", `{"per": "group", "in_order": true}`, "changed",
			`"name":"a","per":"group","in_order":true,"max_running":1,"running":0`},
		{"PUT", "", `{"per": "tenant", "weights": {"large": 3}}`, "changed", `"name":"a","per":"tenant","weights":{"large":3}`},
		{"DELETE", "", "", "deleted", ""},
		{"DELETE", "", "", "absent", ""},
	})
	s.refuses("all", "PUT", "/v1/limits/a", map[string]string{
		`{}`:                                "max_running or rate or per must be given",
		`{"rate": 1, "rate_interval": 1e9}`: "rate_interval must be between 1s and 24h",
		`{"max_running": 1, "type": "AB", "queue": "mail"}`: "type and queue must not both be given",
		`{"max_running": 1, "queue": "No"}`:                 "queue must be 1 to 64 of a-z",
		`{"name": "a"}`:                                     "body.name: unexpected property",
	})
	s.says(s.wants(422, "all", "PUT", "/v1/limits/A", `{"max_running": 1}`), "name must be 1 to 64")
}

func TestDefaultsOverHTTP(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.takes("defaults", "/A%2FB", `"type":"A/B"`, []step{
		{"PUT", "", `{"max_attempts": 3, "expiration": 60}`, "created", `"expiration":60,"max_attempts":3,"type":"A/B"`},
		{"PUT", "", `{"max_attempts": 3, "expiration": 60}`, "unchanged", `"expiration":60,"max_attempts":3,"type":"A/B"`},
		{"PUT", "", `{"queue": "mail", "backoff": "1m"}`, "changed", `"queue":"mail","type":"A/B"`},
		{"DELETE", "", "", "deleted", ""},
		{"DELETE", "", "", "absent", ""},
	})
	s.says(s.wants(404, "reader", "GET", "/v1/defaults/A%2FB", ""), "the type has no defaults")
	s.refuses("all", "PUT", "/v1/defaults/MAIL", map[string]string{
		`{}`:                     "defaults must have a field",
		`{"priority": null}`:     "body.priority: must not be null",
		`{"max_attempts": 0}`:    "must be between 1 and 1000",
		`{"backoff": "soon"}`:    "backoff must be",
		`{"queue": "No"}`:        "must be 1 to 64 of a-z",
		`{"entity": "a"}`:        "body.entity: unexpected property",
		`{"declared_by": "svc"}`: "body.declared_by: unexpected property",
	})
	s.says(s.wants(422, "all", "PUT", "/v1/defaults/a%20b", `{"priority": 1}`), "type must be")
	if got := s.wants(200, "reader", "GET", "/v1/defaults", ""); got.text != `{"defaults":[]}` {
		t.Errorf("a refused call has set %s", got.text)
	}
	s.wants(200, "all", "PUT", "/v1/defaults/*", `{"priority": 7}`)
	if got := s.wants(201, "all", "PUT", "/v1/tasks/a", hello); !strings.Contains(got.text, `"a"`) {
		t.Errorf("scheduled: %s", got.text)
	}
	if got := s.wants(200, "reader", "GET", "/v1/tasks/a", ""); !strings.Contains(got.text, `"priority":7`) {
		t.Errorf("a task without a priority: %s", got.text)
	}
}

func TestQueues(t *testing.T) {
	t.Parallel()
	s := newService(t)
	if got := s.wants(200, "reader", "GET", "/v1/queues", ""); got.text != `{"queues":[]}` {
		t.Errorf("no queues: %s", got.text)
	}
	s.make("far", store.StatusQueued)
	s.wants(201, "all", "PUT", "/v1/tasks/mail", `{"payload": {"type": "MAIL"}, "queue": "mail", "priority": 3,
		"scheduled_at": "2000-01-01T00:00:00Z"}`)
	s.wants(201, "all", "PUT", "/v1/tasks/news", `{"payload": {"type": "NEWS"}, "queue": "mail", "scheduled_at": "2000-01-02T00:00:00Z"}`)
	s.wants(200, "all", "POST", "/v1/queues/mail/pause", `{"reason": "repair"}`)
	queues := answerTo[api.Queues](s, "/v1/queues").Queues
	if len(queues) != 2 || queues[1].Queue != "mail" || queues[1].Due != 2 || len(queues[1].Pauses) != 1 ||
		deref(queues[1].Pauses[0].Reason) != "repair" || queues[0].Waiting != 1 {
		t.Errorf("queues %+v", queues)
	}
	lanes := answerTo[api.Queues](s, "/v1/queues?lanes=true").Queues
	if len(lanes) != 3 || *lanes[1].Type+*lanes[2].Type != "MAILNEWS" || *lanes[1].Priority != 3 {
		t.Errorf("lanes %+v", lanes)
	}
	s.says(s.wants(422, "reader", "GET", "/v1/queues?lanes=2", ""), "query.lanes: invalid boolean")
}

func TestNodes(t *testing.T) {
	t.Parallel()
	s := newService(t)
	if got := s.wants(200, "reader", "GET", "/v1/nodes", ""); got.text != `{"nodes":[]}` {
		t.Errorf("no nodes: %s", got.text)
	}
	s.liveNode("mailer")
	s.liveNode("other")
	s.exec(`INSERT INTO tasktable.nodes (service, version, host, queues, types, dead_at)
		VALUES ('mailer', 'v1', 'host/1', '{"default": 10}', '{LOG}', clock_timestamp())`)
	for query, want := range map[string]string{
		"?service=mailer": "mailer works", "?service=none": "", "?ended=true&limit=1&service=mailer": "",
	} {
		var words []string
		for _, node := range answerTo[api.Nodes](s, "/v1/nodes"+query).Nodes {
			words = append(words, node.Service+" "+string(node.State))
			if node.Queues["default"] != 10 || len(node.Types) != 1 {
				t.Errorf("%s: %+v", query, node)
			}
		}
		if got := strings.Join(words, ", "); want != "" && got != want || len(words) > 1 {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	s.refusesQueries("reader", "/v1/nodes", map[string]string{
		"limit=0": "query.limit: expected number >= 1", "limit=10001": "query.limit: expected number <= 10000",
		"service=%00": "service must be", "service=%FF": "service must be", "ended=perhaps": "query.ended: invalid boolean",
	})
}

func TestStats(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.make("task", store.StatusFailed)
	s.wants(201, "all", "PUT", "/v1/tasks/other", `{"payload": {"type": "OTHER"}, "scheduled_at": "2100-01-01T00:00:00Z"}`)
	for attempt, outcome := range []string{"RETRIED", "FAILED"} {
		s.exec(`INSERT INTO tasktable.scheduled_task_executions
			(fence, task_id, type, revision, attempt, scheduled_at, due_at, started_at, finished_at, outcome)
			SELECT $1::int, 'task', 'TEST', 1, $1::int, at, at - interval '3 seconds', at - interval '2 seconds', at, $2
			FROM clock_timestamp() AS at`, attempt+1, outcome)
	}
	answer := answerTo[api.Stats](s, "/v1/stats")
	if got := fmt.Sprint(answer.Counts); got != "[{OTHER QUEUED 1 0} {TEST FAILED 1 0}]" {
		t.Errorf("counts %s", got)
	}
	if len(answer.Types) != 1 || answer.Types[0].Failed != 1 || answer.Types[0].Retried != 1 ||
		math.Abs(float64(*answer.Types[0].TookP50)-2) > 0.5 || math.Abs(float64(*answer.Types[0].DelayP99)-1) > 0.5 {
		t.Errorf("types %+v", answer.Types)
	}
	if window := answer.Until.Sub(answer.Since); window != time.Hour {
		t.Errorf("the window is %v, want 1h", window)
	}
	answer = answerTo[api.Stats](s, "/v1/stats?type=OTHER&window=1.5")
	if len(answer.Types) != 0 || len(answer.Counts) != 1 || answer.Until.Sub(answer.Since) != 1500*time.Millisecond {
		t.Errorf("stats of a type %+v", answer)
	}
	s.refusesQueries("reader", "/v1/stats", map[string]string{
		"window=0": "query.window: expected number >= 1", "window=604801": "query.window: expected number <= 604800",
		"window=1h": "query.window: invalid float", "window=NaN": "window", "window=Inf": "query.window", "type=%00": "type must be",
	})
}
