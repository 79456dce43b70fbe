package api_test

import (
	"strings"
	"testing"
)

func TestCalendarsOverHTTP(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.says(s.wants(404, "reader", "GET", "/v1/calendars/a", ""), "there is no such calendar")
	const closed = `{"from":"2027-12-24","to":"2027-12-31","note":"closed"}`
	listed := func(days string) string { return `"name":"a","days":[` + days + `],"tasks":0` }
	s.takes("calendars", "/a", `"name":"a"`, []step{
		{"PUT", "", `{"days": [` + closed + `]}`, "created", listed(closed)},
		{"PUT", "", `{"days": [` + closed + `]}`, "unchanged", listed(closed)},
		{"POST", "/days", `{"days": [{"from": "2027-05-14"}]}`, "changed",
			listed(`{"from":"2027-05-14","to":"2027-05-14"},` + closed)},
		{"PUT", "", `{"days": []}`, "changed", listed("")},
		{"DELETE", "", "", "deleted", ""},
		{"DELETE", "", "", "absent", ""},
		{"POST", "/days", `{"days": [{"from": "2027-05-14"}]}`, "created",
			listed(`{"from":"2027-05-14","to":"2027-05-14"}`)},
	})
	for body, says := range map[string]string{
		`{"days": [{"from": "2027-02-29"}]}`:                                             "body.days[0].from: expected string to be RFC 3339 date",
		`{"days": [{"from": "2027-02-02"}, {"from": "2027-02-02", "to": "2027-02-01"}]}`: "days[1]: days must not end before",
		`{"days": [{"from": "2027-02-02", "note": "\u0000"}]}`:                           "note",
		`{"days": [{"day": "2027-02-02"}]}`:                                              "unexpected property",
		`{}`:                                                                             "days",
	} {
		s.says(s.wants(422, "all", "PUT", "/v1/calendars/a", body), says)
		s.says(s.wants(422, "all", "POST", "/v1/calendars/a/days", body), says)
	}
	s.says(s.wants(422, "all", "PUT", "/v1/calendars/workdays", `{"days": []}`), "name must")
}

func TestACalendarInUseIsNotRemoved(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.wants(200, "all", "PUT", "/v1/calendars/company", `{"days": [{"from": "2027-12-24"}]}`)
	s.wants(201, "all", "PUT", "/v1/tasks/nightly", `{"payload": {"type": "LOG"}, "cron": "0 3 * * * out-of=company"}`)
	s.says(s.wants(422, "all", "PUT", "/v1/tasks/other", `{"payload": {"type": "LOG"}, "cron": "0 3 * * * out-of=compan"}`),
		"cron must name calendars that exist, got compan")
	s.says(s.wants(409, "all", "DELETE", "/v1/calendars/company", ""), "nightly")
	if got := s.wants(200, "reader", "GET", "/v1/calendars/company", ""); !strings.Contains(got.text, `"tasks":1`) {
		t.Errorf("the calendar: %s", got.text)
	}
}

// A tenant sees the general calendars, and changes its own alone, which hide those for its tasks.
func TestCalendarsOfTenants(t *testing.T) {
	t.Parallel()
	s, secrets := newServiceWithRoles(t)
	acme, globex, all := secrets["acme"], secrets["globex"], secrets["all"]
	s.wants(200, all, "PUT", "/v1/calendars/company", `{"days": [{"from": "2027-12-24"}]}`)
	s.wants(200, acme, "PUT", "/v1/calendars/company", `{"days": [{"from": "2027-01-01"}]}`)
	s.wants(200, all, "PUT", "/v1/calendars/own?tenant_id=globex", `{"days": []}`)
	s.says(s.wants(403, acme, "PUT", "/v1/calendars/company?tenant_id=globex", `{"days": []}`), "tenant_id must be the tenant")
	s.says(s.wants(403, acme, "GET", "/v1/calendars/company?tenant_id=globex", ""), "tenant_id must be the tenant")
	for _, c := range []struct{ key, path, has, lacks string }{
		{all, "/company", "2027-12-24", "2027-01-01"},
		{all, "/company?tenant_id=acme", "2027-01-01", "2027-12-24"},
		{acme, "/company", "2027-01-01", "2027-12-24"},
		{globex, "/company", "2027-12-24", "2027-01-01"},
		{acme, "", "2027-12-24", "globex"},
		{globex, "", `"tenant_id":"globex"`, "acme"},
	} {
		if got := s.wants(200, c.key, "GET", "/v1/calendars"+c.path, ""); !strings.Contains(got.text, c.has) ||
			strings.Contains(got.text, c.lacks) {
			t.Errorf("%s: %s, want %s, and not %s", c.path, got.text, c.has, c.lacks)
		}
	}
	s.wants(404, acme, "GET", "/v1/calendars/own", "")
	s.wants(200, acme, "DELETE", "/v1/calendars/company", "")
	if got := s.wants(200, all, "GET", "/v1/calendars/company", ""); !strings.Contains(got.text, "2027-12-24") {
		t.Errorf("the tenant has removed the general calendar: %s", got.text)
	}
}
