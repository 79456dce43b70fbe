package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/scheduled/api/keys"
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
				before := s.states()
				got := s.wants(http.StatusForbidden, key, call[0], call[1], call[2])
				s.says(got, ": the key must not change such tasks")
				if got.field("code") != c.code || s.states() != before {
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
