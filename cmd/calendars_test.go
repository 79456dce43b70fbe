package cmd

import (
	"testing"
)

const someCalendars = `
SELECT tasktable.set_calendar('company', '[{"from": "2027-12-24", "to": "2027-12-31", "note": "closed"}, "2028-05-26"]',
	by => 'tasktable:ann');
SELECT tasktable.set_calendar('company', '["2027-01-04"]', 'acme', by => 'tasktable:bob');
SELECT tasktable.set_calendar('empty', '[]', by => 'tasktable:bob');
UPDATE tasktable.calendars SET changed_at = '2026-11-21 17:00Z';
SELECT tasktable.schedule_recurring('{"type": "CLEANUP"}', '0 3 * * * out-of=company', 'nightly');`

var withCalendars = with(someCalendars)

func TestCalendarsAsTablesAndJSON(t *testing.T) {
	t.Parallel()
	ics := written(t, "holidays.ics", "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20271225\r\n"+
		"DTEND;VALUE=DATE:20271227\r\nSUMMARY:Christmas\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n")
	csv := written(t, "closed.csv", "from,to,note\n2028-01-03,2028-01-07,inventory\n")
	goldenCommands(t, "calendars", withCalendars, replaced(`/\S*/`, "/tmp/"), []goldenCommand{
		{"list", exitOK, []string{"calendars", "list"}},
		{"list_of_a_tenant", exitOK, []string{"calendars", "list", "--tenant=acme"}},
		{"show", exitOK, []string{"calendars", "show", "company"}},
		{"show_of_a_tenant", exitOK, []string{"calendars", "show", "company", "--tenant=acme"}},
		{"show_empty", exitOK, []string{"calendars", "show", "empty"}},
		{"show_absent", exitFailed, []string{"calendars", "show", "school"}},
		{"add", exitOK, []string{"calendars", "add", "school", "2027-07-05..2027-08-13", "--note=holidays"}},
		{"add_no_day", exitUsage, []string{"calendars", "add", "school"}},
		{"add_a_wrong_day", exitUsage, []string{"calendars", "add", "school", "2027-02-29"}},
		{"add_a_wrong_name", exitUsage, []string{"calendars", "add", "workdays", "2027-12-24"}},
		{"remove_days", exitOK, []string{"calendars", "remove", "company", "2027-12-31"}},
		{"remove", exitOK, []string{"calendars", "remove", "empty"}},
		{"remove_used", exitFailed, []string{"calendars", "remove", "company"}},
		{"import_ics", exitOK, []string{"calendars", "import", "company", ics}},
		{"import_csv", exitOK, []string{"calendars", "import", "company", csv, "--replace"}},
		{"import_a_wrong_file", exitUsage, []string{"calendars", "import", "company", written(t, "wrong.csv", "a,b\nc,d\n")}},
		{"next", exitOK, []string{"recurring", "next", "--cron=0 9 * * *", "--out-of=company", "--from=2027-12-23",
			"--count=2"}},
		{"next_of_a_tenant", exitOK, []string{"recurring", "next", "--cron=0 9 * * *", "--out-of=company",
			"--from=2027-12-23", "--count=2", "--tenant=acme"}},
		{"next_moved", exitOK, []string{"recurring", "next", "--cron=0 9 24 12 *", "--out-of=company", "--move=next",
			"--count=2"}},
		{"next_never", exitOK, []string{"recurring", "next", "--cron=0 9 24 12 *", "--keep-to=empty", "--count=2"}},
		{"next_absent", exitUsage, []string{"recurring", "next", "--cron=@daily", "--out-of=school"}},
	})
}

func TestTasksScheduleOnDays(t *testing.T) {
	t.Parallel()
	variables := withCalendars(t)
	url := urlOf(variables)
	schedule := func(id string, args ...string) {
		t.Helper()
		args = append([]string{"tasks", "schedule", "--type=LOG", "--id=" + id}, args...)
		runFixed(t, variables, args...).want(t, exitOK)
	}
	schedule("second", "--cron=0 9 * * TUE", "--every=2", "--from=2027-01-05", "--out-of=company",
		"--move=next")
	schedule("once", "--at=2027-12-25T09:00:00Z", "--out-of=company", "--keep-to=workdays")
	schedule("wall", "--at=2027-12-25T09:00:00Z", "--days=out-of=company move=previous",
		"--cron-time-zone=Asia/Tokyo")
	execute(t, url, `SELECT 1 / (count(*) = 3)::int FROM tasktable.scheduled_tasks
		WHERE cron = '0 9 * * TUE every=2 from=2027-01-05 out-of=company move=next'
			OR id = 'once' AND scheduled_at = '2028-01-03T09:00Z'
			OR id = 'wall' AND scheduled_at = '2027-12-23T09:00Z'`)
}
