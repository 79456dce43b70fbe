package dashboard_test

import (
	"net/http"
	"testing"

	"github.com/tasktable/tasktable/scheduled/dashboard"
)

func TestCalendars(t *testing.T) {
	t.Parallel()
	b := newBoard(t, as("ann", dashboard.All&^dashboard.Admin, ""))
	b.get("/calendars").wants(t, http.StatusOK, "There is no calendar.")
	b.post("/calendars/add", "name", " company ", "days", "2027-12-24..2027-12-31, 2028-05-26", "note", markup, "back",
		"/calendars?name=company").
		wants(t, http.StatusOK, "Calendar company: created.", "company all 2 2028-05-26 0", "2027-12-24..2027-12-31")
	b.post("/calendars/remove-days", "name", "company", "days", "2027-12-25", "back", "/calendars?name=company").
		wants(t, http.StatusOK, "Calendar company: changed.", "2027-12-26..2027-12-31").lacks(t, "2027-12-24..2027-12-31 ")
	b.asEngine(`INSERT INTO tasktable.scheduled_tasks (id, payload, cron)
		VALUES ('nightly', '{"type": "LOG"}', '0 3 * * * out-of=company')`)
	b.post("/calendars/remove", "name", "company").wants(t, http.StatusConflict, "rules of tasks name it: nightly")
	b.refuses("/calendars/add", map[string][]string{
		"Name must be a-z":          {"name", markup, "days", "2027-12-24"},
		"Days must be given":        {"name", "company", "days", " "},
		"must be a day that exists": {"name", "company", "days", "2027-02-29"},
		"must not end before":       {"name", "company", "days", "2027-02-02..2027-02-01"},
	})
	b.asEngine(`SELECT tasktable.cancel('nightly')`)
	b.post("/calendars/remove", "name", "company").wants(t, http.StatusOK, "Calendar company: deleted.")
}

// A tenant sees the general calendars and its own, and changes its own alone, whatever its form says.
func TestCalendarsOfATenant(t *testing.T) {
	t.Parallel()
	b := newTenant(t)
	b.exec(`SELECT tasktable.add_days('company', '["2027-12-24"]');
		SELECT tasktable.add_days('other', '["2027-11-11"]', 'globex')`)
	b.get("/calendars?name=company").wants(t, http.StatusOK, "2027-12-24").lacks(t, "other", "Remove the calendar")
	b.post("/calendars/add", "name", "company", "tenant", "globex", "days", "2027-01-04", "back",
		"/calendars?name=company&tenant=acme").
		wants(t, http.StatusOK, "Calendar company: created.", "2027-01-04", "Remove the calendar company")
	b.post("/calendars/remove", "name", "company").wants(t, http.StatusOK, "Calendar company: deleted.")
	b.post("/calendars/remove", "name", "company").wants(t, http.StatusOK, "Calendar company: absent.", "2027-12-24")
}
