package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/store"
)

// A key that is bound to types and queues changes no other tasks, whichever way it tries, and neither the task that
// there is nor the task that is wanted may be another. It reads what it could read.
func TestBoundKeys(t *testing.T) {
	t.Parallel()
	s, secrets := newServiceWithRoles(t,
		keys.NewKey{Name: "typed", Types: []string{"LOG", "EXEC:backup"}},
		keys.NewKey{Name: "queued", Queues: []string{"default", "mail"}},
		keys.NewKey{Name: "trusted", TenantID: "acme", Types: []string{"EXEC"}})
	of := func(kind, queue string) string {
		return `{"payload": {"type": "` + kind + `"}, "queue": "` + queue + `", "scheduled_at": "2030-01-01T12:00:00Z"}`
	}
	log := of("LOG", "default")
	for name, c := range map[string]struct{ allowed, refused, code string }{
		"typed":   {log, of("LOGS", "default"), "type_not_allowed"},
		"queued":  {log, of("LOG", "slow"), "queue_not_allowed"},
		"acme":    {log, of("EXEC", "default"), "type_not_allowed"},
		"globex":  {of("WEBHOOK", "slow"), of("RUN_SQL:report", "default"), "type_not_allowed"},
		"trusted": {of("EXEC:backup", "default"), of("SEND_EMAIL", "default"), "type_not_allowed"},
	} {
		s.run(name, func(s *service) {
			key, own, other := secrets[name], "/v1/tasks/own-"+name, "/v1/tasks/other-"+name
			theirs := c.refused
			if tenant := map[string]string{"acme": "acme", "trusted": "acme", "globex": "globex"}[name]; tenant != "" {
				theirs = strings.Replace(theirs, "{", `{"tenant_id": "`+tenant+`", `, 1)
			}
			s.wants(http.StatusCreated, secrets["all"], "PUT", other, theirs)
			s.wants(http.StatusCreated, key, "PUT", own, c.allowed)
			refusedType := c.refused[strings.Index(c.refused, `"payload"`):strings.Index(c.refused, `, "scheduled_at"`)]
			for _, call := range [][3]string{
				{"PUT", other + "-new", c.refused},
				{"PUT", own, c.refused},
				{"PUT", own, strings.Replace(c.allowed, "{", `{"if_dead": [`+c.refused+`], `, 1)},
				{"PUT", other, c.allowed},
				{"POST", "/v1/tasks", c.refused},
				{"POST", "/v1/tasks/bulk", `{"tasks": [` + c.allowed + `, ` + c.refused + `]}`},
				{"PATCH", own, `{` + refusedType + `}`},
				{"PATCH", other, `{"priority": 7}`},
				{"POST", other + "/pause", ""},
				{"POST", other + "/run-now", ""},
				{"POST", other + "/cancel", ""},
				{"DELETE", other, ""},
			} {
				before := s.everything()
				got := s.wants(http.StatusForbidden, key, call[0], call[1], call[2])
				s.says(got, ": the key must not change such tasks")
				if got.field("code") != c.code || s.everything() != before {
					t.Errorf("%s: %s", call, got.text)
				}
			}
			s.wants(http.StatusOK, key, "GET", other, "")
			s.wants(http.StatusOK, key, "PATCH", own, `{"priority": 7}`)
			s.wants(http.StatusOK, key, "POST", own+"/run-now", "", "Idempotency-Key", "run")
			// A dead letter of another type or queue keeps even a call with a filter from changing anything.
			s.exec(`UPDATE tasktable.scheduled_tasks SET status = 'FAILED' WHERE id = $1`, "other-"+name)
			got := s.wants(http.StatusForbidden, key, "POST", "/v1/dead-letters/retry", `{"ids": ["other-`+name+`"]}`)
			if got.field("code") != c.code {
				t.Errorf("dead letters: %s", got.text)
			}
		})
	}
}

// A key that is bound pauses and resumes no scope that has tasks which it must not change. The database refuses it, so
// that the API and the dashboard do.
func TestBoundKeysPauseTheirOwn(t *testing.T) {
	t.Parallel()
	all := []string{"all", "queue:billing", "queue:default", "type:HTTP_REQUEST", "type:HTTP_REQUEST:a", "type:LOG"}
	for name, c := range map[string]struct {
		types, queues []string
		codes         []string // of all, in its order; empty: allowed
	}{
		"free":   {nil, nil, []string{"", "", "", "", "", ""}},
		"typed":  {[]string{"HTTP_REQUEST"}, nil, []string{"type", "type", "type", "", "", "type"}},
		"queued": {nil, []string{"billing"}, []string{"queue", "", "queue", "queue", "queue", "queue"}},
		"both": {[]string{"HTTP_REQUEST"}, []string{"billing"},
			[]string{"type", "type", "queue", "queue", "queue", "type"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, secrets := newServiceWithRoles(t, keys.NewKey{Name: name, Types: c.types, Queues: c.queues})
			bind, tasks := keys.New(keys.Config{}), store.New(store.Config{})
			for i, text := range all {
				scope, err := store.ParseScope(text)
				if err != nil {
					t.Fatal(err)
				}
				for _, resumes := range []bool{false, true} {
					err := pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error {
						if err := bind.Bind(t.Context(), tx, c.types, c.queues); err != nil {
							return err
						}
						if resumes {
							_, err := tasks.ResumeScope(t.Context(), tx, scope)
							return err
						}
						_, err := tasks.PauseScope(t.Context(), tx, scope, time.Time{}, "")
						return err
					})
					if column, _ := keys.Unbound(err); column != c.codes[i] || column == "" && err != nil {
						t.Errorf("%s, resumes %t: %v, want the column %q", text, resumes, err, c.codes[i])
					}
				}
				queue, isQueue := strings.CutPrefix(text, "queue:")
				for _, call := range []string{"/pause", "/resume"} {
					switch path := "/v1/queues/" + queue + call; {
					case isQueue && c.codes[i] == "":
						s.wants(http.StatusOK, secrets[name], "POST", path, "")
					case isQueue:
						got := s.wants(http.StatusForbidden, secrets[name], "POST", path, "")
						if got.field("code") != c.codes[i]+"_not_allowed" {
							t.Errorf("%s: %s", path, got.text)
						}
					}
				}
			}
		})
	}
}

// Who may schedule cannot keep people from being told, nor send them messages.
func TestNoticesAreTheEngines(t *testing.T) {
	t.Parallel()
	s, secrets := newServiceWithRoles(t)
	for _, id := range []string{"notice-watch", "notice/dead/ops/1"} {
		s.exec(`SELECT tasktable.schedule('{"type": "NOTICE", "recipient": "ops"}', '2040-01-01', $1)`, id)
	}
	s.wants(http.StatusCreated, secrets["all"], "PUT", "/v1/tasks/a", hello)
	s.wants(http.StatusCreated, secrets["acme"], "PUT", "/v1/tasks/b", hello)
	before := s.everything()
	const notice = `{"payload": {"type": "NOTICE", "recipient": "ops", "test": true}}`
	for _, key := range []string{"all", "acme"} {
		calls := [][3]string{
			{"POST", "/v1/tasks", notice},
			{"POST", "/v1/tasks", `{"id": "notice/x", "payload": {"type": "LOG"}}`},
			{"POST", "/v1/tasks/bulk", `{"tasks": [` + hello + `, {"payload": {"type": "NOTICE_WATCH"}}]}`},
			{"PUT", "/v1/tasks/x", notice},
			{"PATCH", map[string]string{"all": "/v1/tasks/a", "acme": "/v1/tasks/b"}[key], notice},
		}
		for _, path := range []string{"/v1/tasks/notice-watch", "/v1/tasks/notice%2Fdead%2Fops%2F1"} {
			calls = append(calls, [3]string{"PUT", path, hello}, [3]string{"PATCH", path, `{"priority": 1}`},
				[3]string{"DELETE", path, ""})
			for _, verb := range []string{"/cancel", "/pause", "/resume", "/run-now", "/retry"} {
				calls = append(calls, [3]string{"POST", path + verb, ""})
			}
		}
		for _, call := range calls {
			got := s.wants(http.StatusForbidden, secrets[key], call[0], call[1], call[2])
			s.says(got, "ids that begin with notice/, the id notice-watch, and the types NOTICE and NOTICE_WATCH are the")
			if got.field("code") != "reserved" {
				t.Errorf("%s: %s", call, got.text)
			}
		}
	}
	s.hasNotChanged(before)
	s.wants(http.StatusOK, secrets["all"], "GET", "/v1/tasks/notice-watch", "")
}
