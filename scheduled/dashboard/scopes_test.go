package dashboard_test

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/scheduled/api"
	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/scheduled/dashboard"
	"github.com/tasktable/tasktable/store"
)

// sameCalls are the calls of the API that do what an act does. The parts of the path after ? are the act's form.
var sameCalls = map[string]string{
	"/schedule":              "PUT /v1/tasks/none",
	"/tasks/{id}/edit":       "PATCH /v1/tasks/none",
	"/tasks/{id}/move":       "PATCH /v1/tasks/none",
	"/tasks/{id}/run-now":    "POST /v1/tasks/none/run-now",
	"/tasks/{id}/retry":      "POST /v1/tasks/none/retry",
	"/tasks/{id}/resume":     "POST /v1/tasks/none/resume",
	"/tasks/{id}/pause":      "POST /v1/tasks/none/pause",
	"/tasks/{id}/cancel":     "POST /v1/tasks/none/cancel",
	"/tasks/{id}/delete":     "DELETE /v1/tasks/none",
	"/tasks/{id}/archive":    "POST /v1/dead-letters/archive",
	"/tasks/act?cancel":      "POST /v1/tasks/none/cancel",
	"/tasks/act?pause":       "POST /v1/tasks/none/pause",
	"/tasks/act?resume":      "POST /v1/tasks/none/resume",
	"/tasks/act?run_now":     "POST /v1/tasks/none/run-now",
	"/tasks/act?retry":       "POST /v1/tasks/none/retry",
	"/tasks/act?delete":      "DELETE /v1/tasks/none",
	"/recurring/{id}/edit":   "PATCH /v1/tasks/none",
	"/recurring/{id}/pause":  "POST /v1/tasks/none/pause",
	"/recurring/{id}/resume": "POST /v1/tasks/none/resume",
	"/recurring/{id}/cancel": "POST /v1/tasks/none/cancel",

	"/recurring/{id}/delete":  "DELETE /v1/tasks/none",
	"/recurring/{id}/run-now": "POST /v1/tasks/none/run-now",
	"/dead/retry":             "POST /v1/dead-letters/retry",
	"/dead/archive":           "POST /v1/dead-letters/archive",
	"/queues/pause":           "POST /v1/queues/none/pause",
	"/queues/resume":          "POST /v1/queues/none/resume",
	"/calendars/add":          "POST /v1/calendars/none/days",
	"/calendars/remove-days":  "PUT /v1/calendars/none",
	"/calendars/remove":       "DELETE /v1/calendars/none",
	"/limits/set":             "PUT /v1/limits/none",
	"/limits/remove":          "DELETE /v1/limits/none",
	"/defaults/set":           "PUT /v1/defaults/NONE",
	"/defaults/remove":        "DELETE /v1/defaults/NONE",
}

// ownActs are acts that the API has not, with the scopes that they need besides read.
var ownActs = map[string]dashboard.Scopes{
	"/recurring/{id}/backfill": dashboard.Schedule | dashboard.Operate,
	"/tasks/act?archive":       dashboard.Schedule | dashboard.Operate,
	"/keys/new":                dashboard.Admin, "/keys/revoke": dashboard.Admin,
	"/notices/rule": dashboard.Admin, "/notices/rule/enable": dashboard.Admin, "/notices/rule/remove": dashboard.Admin,
	"/notices/recipient": dashboard.Admin, "/notices/recipient/remove": dashboard.Admin, "/notices/test": dashboard.Admin,
}

// scopesFrom reads the scopes of the header by which the tests say who asks.
func scopesFrom(r *http.Request) (scopes []keys.Scope) {
	for name := range strings.SplitSeq(r.Header.Get("X-Test-Scopes"), ",") {
		scopes = append(scopes, keys.Scope(name))
	}
	return scopes
}

// A person may do in the dashboard what the same scopes allow in the API, and no more.
func TestScopesAllowWhatTheAPIAllows(t *testing.T) {
	t.Parallel()
	b := newBoard(t, func(c *dashboard.Config) {
		c.Authenticate = func(r *http.Request) (dashboard.Person, error) {
			scopes, _ := dashboard.ScopesOf(scopesFrom(r)...)
			return dashboard.Person{Name: "ann", Scopes: scopes}, nil
		}
	}).noRedirects()
	calls, err := api.New(api.Config{
		Pool: b.pool, AddressRate: 100000, CallerRate: 100000, Logger: slog.New(slog.DiscardHandler),
		Authenticate: func(r *http.Request) (api.Caller, error) {
			return api.Caller{Name: "ann", Scopes: scopesFrom(r)}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	acts := map[string]bool{}
	for _, route := range dashboard.Routes() {
		switch {
		case route.Path == "/tasks/act":
			for _, verb := range []string{"cancel", "pause", "resume", "run_now", "retry", "archive", "delete"} {
				acts[route.Path+"?"+verb] = true
			}
		case route.Method == http.MethodPost:
			acts[route.Path] = true
		}
	}
	for _, given := range []string{"read", "read,schedule", "read,operate", "read,admin", "read,schedule,operate",
		"read,schedule,admin", "read,operate,admin", "read,schedule,operate,admin"} {
		person := &http.Request{Header: http.Header{"X-Test-Scopes": {given}}}
		scopes, _ := dashboard.ScopesOf(scopesFrom(person)...)
		for act := range acts {
			path, verb, _ := strings.Cut(act, "?")
			path = strings.ReplaceAll(path, "{id}", "none")
			form := url.Values{"verb": {verb}, "task": {"1 QUEUED none"}, "back": {"/"}}
			mayHere := b.send(http.MethodPost, path, form, "X-Test-Scopes", given).status !=
				http.StatusForbidden
			var may bool
			if call, known := sameCalls[act]; known {
				may = allows(t, calls.Handler(), call, given)
			} else if needed, known := ownActs[act]; known {
				may = scopes&needed == needed
			} else {
				t.Fatalf("the act %s is new: add it to sameCalls, or to ownActs if the API has nothing like it", act)
			}
			if may != mayHere {
				t.Errorf("%s with %s: the dashboard allows it: %v, want %v", act, given, mayHere, may)
			}
		}
	}
	for act := range sameCalls {
		if !acts[act] {
			t.Errorf("there is no act %s", act)
		}
	}
}

// allows reports whether the API allows a call, such as "DELETE /v1/tasks/none".
func allows(t *testing.T, calls http.Handler, call, scopes string) bool {
	t.Helper()
	method, path, _ := strings.Cut(call, " ")
	request := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader("{}"))
	request.Header.Set("X-Test-Scopes", scopes)
	request.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	calls.ServeHTTP(answer, request)
	return answer.Code != http.StatusForbidden
}

// The form and the edit refuse the payloads that the API refuses.
func TestPayloadsAreChecked(t *testing.T) {
	t.Parallel()
	b := newAdmin(t, func(c *dashboard.Config) {
		c.CheckPayload = func(taskType string, payload []byte) error {
			if taskType == "FETCH" && strings.Contains(string(payload), "ftp://") {
				return errors.New("url must begin with http:// or https://")
			}
			return nil
		}
	})
	const told = "Url must begin with http:// or https://."
	wrong, right := `{"url": "ftp://x"}`, `{"url": "http://x"}`
	b.post("/schedule", "type", "FETCH", "id", "one", "payload", wrong).wants(t, http.StatusUnprocessableEntity, told)
	b.post("/schedule", "type", "FETCH", "id", "one", "payload", right).wants(t, http.StatusOK)
	edited := strings.Replace(wrong, "{", `{"type": "FETCH", `, 1)
	b.post("/tasks/one/edit", "revision", b.revision("one"), "payload", edited).wants(t, http.StatusUnprocessableEntity, told)
	payload, err := b.tasks.Payload(t.Context(), b.row("one"))
	if err != nil || strings.Contains(string(payload), "ftp") {
		t.Errorf("the payload is %s: %v", payload, err)
	}
	b.exec(`UPDATE tasktable.scheduled_tasks SET payload = payload || '{"url": "ftp://old"}' WHERE id = 'one'`)
	b.post("/tasks/one/edit", "revision", b.revision("one"), "priority", "7").wants(t, http.StatusOK)
	if row := b.row("one"); row.Priority != 7 || row.Status != store.StatusQueued {
		t.Errorf("an edit that leaves the payload alone was refused: %+v", row)
	}
}
