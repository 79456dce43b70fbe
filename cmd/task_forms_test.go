package cmd

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/scheduled/api"
	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/scheduled/dashboard"
	"github.com/tasktable/tasktable/store/form"
	"github.com/tasktable/tasktable/store/storetest"
)

// taskForms are the three forms in which people and programs write a task.
type taskForms struct {
	t              *testing.T
	api, dashboard http.Handler
	variables      []string
	pool           *pgxpool.Pool
}

func newTaskForms(t *testing.T) taskForms {
	t.Helper()
	pool := storetest.Pool(t)
	service, err := api.New(api.Config{Pool: pool, AddressRate: 1000, CallerRate: 1000,
		Authenticate: func(*http.Request) (api.Caller, error) {
			return api.Caller{Name: "all", Scopes: []keys.Scope{keys.Read, keys.Schedule, keys.Operate}}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	pages, err := dashboard.New(dashboard.Config{Pool: pool, Authenticate: func(*http.Request) (dashboard.Person, error) {
		return dashboard.Person{Name: "ann", Scopes: dashboard.Read | dashboard.Schedule | dashboard.Operate}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return taskForms{t, service.Handler(), pages.Handler(), []string{"DATABASE_URL=" + pool.Config().ConnString()}, pool}
}

// put schedules by the API. It returns the body of the answer.
func (f taskForms) put(id, fields string) string {
	body := `{"payload": {"type": "LOG"}` + fields + `}`
	return served(f.api, http.MethodPut, "/v1/tasks/"+id, "application/json", body)
}

// post schedules by the dashboard. It returns the page.
func (f taskForms) post(fields url.Values) string {
	page := served(f.dashboard, http.MethodPost, "/schedule", "application/x-www-form-urlencoded", fields.Encode())
	return html.UnescapeString(page)
}

func served(by http.Handler, method, path, kind, body string) string {
	request := httptest.NewRequest(method, path, strings.NewReader(body))
	request.Header.Set("Content-Type", kind)
	recorder := httptest.NewRecorder()
	by.ServeHTTP(recorder, request)
	answer, _ := io.ReadAll(recorder.Body)
	return fmt.Sprint(recorder.Code, " ", string(answer))
}

// The API, the dashboard and the command line refuse a wrong value of each field with the same sentence, and take the
// same value.
func TestFormsOfATaskAgree(t *testing.T) {
	t.Parallel()
	f := newTaskForms(t)
	for _, field := range form.Fields {
		var wrong, wrongJSON, right string
		long := strings.Repeat("x", max(field.Max, 600)+1)
		switch field.Kind {
		case form.Payload, form.Tasks, form.Time: // the schema, or RFC 3339, has its own sentences in the API
			continue
		case form.Number:
			wrong, right = fmt.Sprint(field.Max+1), fmt.Sprint(field.Max)
			wrongJSON = wrong
		case form.Length:
			wrong, right = (field.Longest + 1e9).String(), field.Longest.String()
			wrongJSON = fmt.Sprint(int64(field.Longest.Seconds()) + 1)
		case form.Choice:
			wrong, wrongJSON, right = "never", `"never"`, field.Words[0]
		case form.Text:
			wrong, wrongJSON, right = long, `"`+long+`"`, map[string]string{"cron": "@daily", "time_zone": "UTC", "backoff": "1m x2", "days": "keep-to=workdays"}[field.Name]
			if right == "" {
				right = "abc"
			}
		}
		recurs := field.Recurs && field.Name != "cron"
		extra, cron := "", []string{}
		if recurs {
			extra, cron = `, "cron": "@daily"`, []string{"--cron=@daily"}
		} else if field.Name == "debounce" {
			extra, cron = `, "delay": 1`, []string{"--delay=1s"}
		} else if field.Name == "days" {
			extra, cron = `, "scheduled_at": "2100-01-01T00:00:00Z"`, []string{"--at=+1h"}
		}
		if got := f.put("api-"+field.Name, fmt.Sprintf(`, %q: %s%s`, field.Name, wrongJSON, extra)); !strings.HasPrefix(got, "422") ||
			!strings.Contains(got, field.Rule) {
			t.Errorf("the API about %s: %s, want %s", field.Name, got, field.Rule)
		}
		run := func(text string) result {
			args := append([]string{"tasks", "schedule", "--type=LOG", "--id=cli-" + field.Name}, cron...)
			return runFixed(t, f.variables, append(args, "--"+field.Input+"="+text)...)
		}
		run(wrong).want(t, exitUsage, field.Rule)
		run(right).want(t, exitOK)
		if field.Verb { // the form of the dashboard only makes new tasks
			continue
		}
		fields := url.Values{"type": {"LOG"}, "id": {"page-" + field.Name}}
		if recurs {
			fields.Set("cron", "@daily")
		}
		name := strings.ReplaceAll(field.Input, "-", "_")
		fields.Set(name, wrong)
		if got := f.post(fields); !strings.HasPrefix(got, "422") || !strings.Contains(got, field.Rule) {
			t.Errorf("the dashboard about %s: no %s in: %s", field.Name, field.Rule, got)
		}
		if field.Name == "id" {
			right = "page" // the command has scheduled the other
		}
		fields.Set(name, right)
		if got := f.post(fields); !strings.HasPrefix(got, "303") {
			t.Errorf("the dashboard with %s %s: %s", field.Name, right, got)
		}
	}
}
