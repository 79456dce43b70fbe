package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/scheduled/api"
	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

// newServiceWithRoles is a service that is logged in as the engine's role, with the keys of two tenants, one key of
// all, and more. It returns the secrets by the names of the keys.
func newServiceWithRoles(t *testing.T, more ...keys.NewKey) (s *service, secrets map[string]string) {
	t.Helper()
	roles := migrations.Roles{
		Owner: storetest.Role(t), Engine: storetest.Role(t), Application: storetest.Role(t), Auditor: storetest.Role(t),
		Tenant: storetest.Role(t),
	}
	s = newService(t, func(c *api.Config) {
		var script strings.Builder
		if err := migrations.PrintRoles(&script, "", roles); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Pool.Exec(t.Context(), script.String(), pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
		address, err := url.Parse(c.Pool.Config().ConnString())
		if err != nil {
			t.Fatal(err)
		}
		address.User = url.UserPassword(roles.Engine, storetest.RolePassword)
		if c.Pool, err = pgxpool.New(t.Context(), address.String()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Pool.Close)
		c.Keys = keys.New(keys.Config{TenantRole: roles.Tenant})
		secrets = map[string]string{}
		for _, key := range append([]keys.NewKey{
			{Name: "acme", TenantID: "acme"}, {Name: "globex", TenantID: "globex"}, {Name: "all"},
		}, more...) {
			key.Scopes = []keys.Scope{keys.Read, keys.Schedule, keys.Operate}
			secret, _, err := c.Keys.Create(t.Context(), c.Pool, key)
			if err != nil {
				t.Fatal(err)
			}
			secrets[key.Name] = secret
		}
		c.Authenticate = api.ByKey(keys.NewAuthenticator(keys.AuthenticatorConfig{Keys: c.Keys, DB: c.Pool}))
	})
	return s, secrets
}

func TestTenantTouchesItsTasksAlone(t *testing.T) {
	t.Parallel()
	s, secrets := newServiceWithRoles(t)
	acme, globex, all := secrets["acme"], secrets["globex"], secrets["all"]
	s.wants(http.StatusCreated, acme, "PUT", "/v1/tasks/a", hello)
	s.wants(http.StatusCreated, globex, "PUT", "/v1/tasks/g", hello)
	s.wants(http.StatusCreated, all, "PUT", "/v1/tasks/n", hello)
	s.exec(`UPDATE tasktable.scheduled_tasks SET status = 'FAILED'`)
	before := s.everything()
	recurring := strings.Replace(hello, "{", `{"cron": "@daily", `, 1)
	for _, other := range []string{"g", "n"} {
		for _, call := range []struct {
			status       int
			method, path string
			body         string
		}{
			{http.StatusNotFound, "GET", "", ""},
			{http.StatusNotFound, "GET", "/why", ""},
			{http.StatusNotFound, "PATCH", "", `{"priority": 3}`},
			{http.StatusNotFound, "POST", "/cancel", ""},
			{http.StatusNotFound, "POST", "/pause", ""},
			{http.StatusNotFound, "POST", "/pause", `{"until": "2040-01-01T00:00:00Z"}`},
			{http.StatusNotFound, "POST", "/resume", ""},
			{http.StatusNotFound, "POST", "/run-now", ""},
			{http.StatusNotFound, "POST", "/retry", ""},
			{http.StatusNotFound, "DELETE", "", ""},
			{http.StatusConflict, "PUT", "", hello},
			{http.StatusConflict, "PUT", "", recurring},
		} {
			s.wants(call.status, acme, call.method, "/v1/tasks/"+other+call.path, call.body)
			s.wants(call.status, acme, call.method, "/v1/tasks/"+other+call.path, call.body, "Idempotency-Key",
				fmt.Sprint(other, call))
		}
		s.wants(http.StatusConflict, acme, "POST", "/v1/tasks/bulk",
			`{"tasks": [{"id": "new", "payload": {"type": "LOG"}},
				{"id": "`+other+`", "payload": {"type": "LOG"}}]}`)
		for _, path := range []string{"/executions", "/changes"} {
			got := s.wants(http.StatusOK, acme, "GET", "/v1/tasks/"+other+path, "")
			if strings.Contains(got.text, `"task_id"`) {
				t.Errorf("%s of %s: %s", path, other, got.text)
			}
		}
		s.wants(http.StatusOK, acme, "POST", "/v1/dead-letters/archive", `{"ids": ["`+other+`"]}`)
	}
	s.wants(http.StatusForbidden, acme, "PUT", "/v1/tasks/x", `{"payload": {"type": "LOG"}, "tenant_id": "globex"}`)
	s.wants(http.StatusForbidden, acme, "PATCH", "/v1/tasks/a",
		`{"tenant_id": "globex", "scheduled_at": "2030-01-01T12:00:00Z"}`)
	for _, path := range []string{"/v1/queues", "/v1/nodes", "/v1/stats"} {
		s.wants(http.StatusForbidden, acme, "GET", path, "")
		s.wants(http.StatusOK, all, "GET", path, "")
	}
	for _, path := range []string{"/v1/queues/default/pause", "/v1/queues/default/resume"} {
		s.wants(http.StatusForbidden, acme, "POST", path, "")
	}
	s.hasNotChanged(before)
	ofOthers := regexp.MustCompile(`"(id|example)":"[gn]"|"count":[2-9]`)
	for _, path := range []string{"/v1/tasks", "/v1/tasks?tenant_id=globex", "/v1/dead-letters", "/v1/dead-letters/groups",
		"/v1/recurring"} {
		if got := s.wants(http.StatusOK, acme, "GET", path, "").text; ofOthers.MatchString(got) {
			t.Errorf("%s shows tasks of others: %s", path, got)
		}
	}
	if got := s.wants(http.StatusOK, acme, "POST", "/v1/dead-letters/retry", `{"filter": {}}`); got.text !=
		fmt.Sprintf(`{"receipts":[{"id":"a","revision":%d,"outcome":"queued"}],"selected":1}`, s.row("a").Revision) {
		t.Errorf("retried %s", got.text)
	}
	if row := s.row("a"); *row.TenantID != "acme" || *row.ScheduledBy != "acme" {
		t.Errorf("the task of acme is %+v", row)
	}
}

// A task with the id of an occurrence would keep that from being made. This holds also for a recurring task that comes
// later, of another tenant.
func TestTenantTakesNoOccurrence(t *testing.T) {
	t.Parallel()
	s, secrets := newServiceWithRoles(t)
	recurring := strings.Replace(hello, "{", `{"cron": "@daily", `, 1)
	for id, caller := range map[string]string{"a": "acme", "g": "globex", "n": "all"} {
		s.wants(http.StatusCreated, secrets[caller], "PUT", "/v1/tasks/"+id, recurring)
	}
	const says = "id must not end in @ and a time, as those of occurrences do, got"
	for _, id := range []string{"g@2040-01-02T00:00:00Z", "n@2040-01-02T00:00:00.123456Z", "later@2040-01-02T00:00:00Z",
		"a@2040-01-02T00:00:00Z", "a@b@2040-01-02T00:00:00Z"} {
		s.says(s.wants(http.StatusUnprocessableEntity, secrets["acme"], "PUT", "/v1/tasks/"+id, hello), says)
		bulk := s.wants(http.StatusUnprocessableEntity, secrets["acme"], "POST", "/v1/tasks/bulk",
			`{"tasks": [`+strings.Replace(hello, "{", `{"id": "`+id+`", `, 1)+`]}`)
		if s.says(bulk, says); strings.Contains(bulk.text, "SQLSTATE") {
			t.Errorf("the answer has the words of Postgres: %s", bulk.text)
		}
	}
	for _, id := range []string{"x@y", "g@2@3", "user@example.org", "a@2040-01-02", "2040-01-02T00:00:00Z",
		"g@2040-01-02T00:00:00Z-again"} {
		s.wants(http.StatusCreated, secrets["acme"], "PUT", "/v1/tasks/"+id, hello)
	}
	s.wants(http.StatusConflict, secrets["acme"], "PUT", "/v1/tasks/g", hello)
	s.wants(http.StatusOK, secrets["acme"], "POST", "/v1/tasks/a/run-now", "")
	// An occurrence that is there is edited as other tasks are.
	occurrence := value[string](s, `SELECT id FROM tasktable.scheduled_tasks WHERE parent_id = 'a'`)
	s.wants(http.StatusOK, secrets["acme"], "PUT", "/v1/tasks/"+occurrence, hello)
}

// A tenant's calls do all that a call does: they repeat, wait, follow events and list.
func TestTenantWorks(t *testing.T) {
	t.Parallel()
	s, secrets := newServiceWithRoles(t)
	acme := secrets["acme"]
	f := s.follow(acme, "")
	s.wants(http.StatusCreated, secrets["globex"], "PUT", "/v1/tasks/g", hello)
	first := s.wants(http.StatusCreated, acme, "PUT", "/v1/tasks/a", hello, "Idempotency-Key", "one")
	again := s.wants(http.StatusCreated, acme, "PUT", "/v1/tasks/a", hello, "Idempotency-Key", "one")
	if first.text != again.text {
		t.Errorf("first %s, again %s", first.text, again.text)
	}
	s.wants(http.StatusOK, acme, "PATCH", "/v1/tasks/a", `{"priority": 3}`, "If-Match", first.header.Get("ETag"))
	s.wants(http.StatusPreconditionFailed, acme, "PATCH", "/v1/tasks/a", `{"priority": 4}`, "If-Match",
		first.header.Get("ETag"))
	s.wants(http.StatusOK, acme, "GET", "/v1/tasks/a/why", "")
	s.wants(http.StatusOK, acme, "POST", "/v1/tasks/bulk", `{"tasks": [{"id": "b", "payload": {"type": "LOG"}}]}`)
	s.wants(http.StatusOK, acme, "POST", "/v1/tasks/b/cancel", "")
	if got := s.wants(http.StatusOK, acme, "GET", "/v1/tasks/b?wait=30s", ""); got.field("status") !=
		string(store.StatusCancelled) {
		t.Errorf("waited for %s", got.text)
	}
	var seen []string
	for len(seen) < 4 {
		event := f.next()
		seen = append(seen, event.Change.TaskID+" "+event.Change.Verb)
	}
	const want = "[a schedule a schedule b schedule b cancel]"
	if fmt.Sprint(seen) != want {
		t.Errorf("events %v, want %s", seen, want)
	}
	s.wants(http.StatusOK, acme, "DELETE", "/v1/tasks/b", "")
}

// A new key with the name of a revoked one gets no answers that belong to another tenant.
func TestAnswersOfARevokedKey(t *testing.T) {
	t.Parallel()
	s, secrets := newServiceWithRoles(t)
	const body = `{"payload": {"type": "LOG"}}`
	s.wants(http.StatusCreated, secrets["acme"], "POST", "/v1/tasks", body, "Idempotency-Key", "one")
	s.exec(`UPDATE tasktable.api_keys SET revoked_at = now(), revoked_by = 'test' WHERE name = 'acme'`)
	s.exec(`UPDATE tasktable.api_keys SET name = 'acme' WHERE name = 'globex'`)
	s.wants(http.StatusConflict, secrets["globex"], "POST", "/v1/tasks", body, "Idempotency-Key", "one")
	s.wants(http.StatusCreated, secrets["globex"], "POST", "/v1/tasks", body, "Idempotency-Key", "two")
}
