package cmd

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
)

// A node with secrets works tasks with secrets, all of which go wrong, and says, counts and writes no secret, at level
// debug.
func TestNodesTellNoSecrets(t *testing.T) {
	t.Parallel()
	c := newCage(t)
	c.mailPort = rudeServer(t)
	p, base := probed(t, []string{
		"DATABASE_URL=" + c.url, "TASKTABLE_SMTP_HOST=127.0.0.1", "TASKTABLE_SMTP_PORT=" + c.mailPort,
		"TASKTABLE_SMTP_TLS=none",
		"TASKTABLE_SMTP_USERNAME=mailer", "TASKTABLE_SMTP_PASSWORD=" + mailCanary, "TASKTABLE_SMTP_FROM=a@example.org",
	}, "--log-level=debug")
	p.waitFor("node leads")
	c.fail()
	c.edit()
	metrics := scraped(t, base, `tasktable_dead_letters\{status="FAILED",type="SEND_EMAIL"\} 2`,
		`tasktable_executions_total\{outcome="FAILED",type="LOG"\}`, `type="UNKNOWN"`)
	noCanary(t, "the metrics", metrics)
	c.cutSession(p)
	got := p.stop("cannot be claimed; it fails", "outcome cannot be recorded; the task fails", "session lost",
		"the server answered 535 5.7.8", "payload does not decode") // the errors of the attempts are logged
	noCanary(t, "the log", got.stderr+got.stdout)
	examined := run(t, []string{"DATABASE_URL=" + c.url}, "doctor")
	if !strings.Contains(examined.stdout, " FAILED dead letters, the first") {
		t.Errorf("the doctor does not see what has failed:\n%s", examined.stdout)
	}
	noCanary(t, "the doctor's findings", examined.stdout+examined.stderr)

	c.noneIn(map[string]string{
		"executions":   `SELECT e::text FROM tasktable.scheduled_task_executions AS e`,
		"nodes":        `SELECT n::text FROM tasktable.nodes AS n`,
		"pauses":       `SELECT p::text FROM tasktable.pauses AS p`,
		"River's jobs": `SELECT row FROM public.jobs_seen UNION ALL SELECT j::text FROM tasktable.river_job AS j`,
		"River's rest": `SELECT q::text FROM tasktable.river_queue AS q
			UNION ALL SELECT n::text FROM tasktable.river_notification AS n`,
		"tasks": `SELECT (to_jsonb(t) - 'payload')::text FROM tasktable.scheduled_tasks AS t`,
		"server's view": `SELECT a::text FROM pg_stat_activity AS a WHERE a.datname = current_database()
			AND a.pid <> pg_backend_pid()`,
	}, "pauses", "River's rest", "server's view")
	c.payloadsInHistory("edited schedule rescheduled", "deleted delete deleted")
}

// fail schedules tasks each of which goes wrong in a way of its own, and waits for them.
func (c *cage) fail() {
	c.t.Helper()
	const mail = `"subject":"` + payloadCanary + `","body":"` + payloadCanary + `","html":"` + payloadCanary + `"}`
	const secret = `,"secret":"` + payloadCanary + `","number":` + numberCanary + `}`
	for id, payload := range map[string]string{
		"refused login":   `{"type":"SEND_EMAIL","email":"member@example.org",` + mail,
		"no address":      `{"type":"SEND_EMAIL","email":"` + payloadCanary + `",` + mail,
		"number for text": `{"type":"SEND_EMAIL","email":` + numberCanary + `,` + mail,
		"object for text": `{"type":"LOG","message":{"` + payloadCanary + `":"` + payloadCanary + `"}` + secret,
		"unclaimable":     `{"type":"LOG","message":"hi"` + secret,
		"unsettled":       `{"type":"LOG","message":"hi"` + secret,
		"too late":        `{"type":"LOG","message":"hi"` + secret,
		"unplannable":     `{"type":"LOG","message":"hi"` + secret,
		"of no node":      `{"type":"UNKNOWN"` + secret,
		"completed":       `{"type":"LOG","message":"hi"` + secret,
		"secondly":        `{"type":"LOG","message":"hi"` + secret,
	} {
		c.schedule(id, payload, func(task *store.Task) {
			switch id {
			case "too late":
				task.At, task.Expiration = time.Now().Add(-time.Hour), time.Minute
			case "unplannable":
				task.At = time.Now().Add(time.Hour)
			case "secondly":
				task.Recurrence = &store.Recurrence{Cron: "* * * * * *"}
			}
		})
	}
	c.exec(`UPDATE tasktable.scheduled_tasks SET cron = '0 0 30 2 *' WHERE id = 'unplannable'`)
	ask(c.t, c.url, `SELECT string_agg(id || ' ' || status, ', ' ORDER BY id COLLATE "C") FROM tasktable.scheduled_tasks
		WHERE id NOT IN ('secondly', 'of no node') AND parent_id IS NULL`, "completed COMPLETED, no address FAILED, "+
		"number for text FAILED, object for text FAILED, refused login FAILED, too late EXPIRED, unclaimable FAILED, "+
		"unplannable FAILED, unsettled FAILED")
	ask(c.t, c.url, `SELECT count(*) > 0 FROM tasktable.scheduled_tasks
		WHERE parent_id = 'secondly' AND status = 'COMPLETED'`, "true")
	ask(c.t, c.url, `SELECT error FROM tasktable.scheduled_task_executions WHERE task_id = 'refused login'`,
		`send email: connect to 127.0.0.1:`+c.mailPort+`: log in as "mailer" with PLAIN: the server answered 535 5.7.8`)
	c.exec(`SELECT tasktable.cancel('secondly')`)
}

// edit runs the verbs on tasks with secrets. Two of them write the payload to the history, and are to.
func (c *cage) edit() {
	c.t.Helper()
	later := func(task *store.Task) { task.At = time.Now().Add(time.Hour) }
	for _, which := range []string{"old", "new"} {
		c.schedule("edited", `{"type":"LOG","secret":"`+payloadCanary+which+`"}`, later)
	}
	c.schedule("deleted", `{"type":"LOG","secret":"`+payloadCanary+`"}`, later)
	for _, verb := range []string{
		`pause('edited')`, `resume('edited')`, `reschedule('edited', now() + interval '2 hours')`, `cancel('edited')`,
		`archive('no address', 'seen')`, `retry('object for text')`,
		`pause_scope('queue', 'other', reason => 'for a while')`, `delete('deleted')`,
	} {
		c.exec(`SELECT tasktable.` + verb)
	}
	ask(c.t, c.url, `SELECT count(*) FROM tasktable.scheduled_task_executions WHERE task_id = 'object for text'`, "2")
}

// cutSession makes the node lose its session, and come back.
func (c *cage) cutSession(p *process) {
	c.t.Helper()
	c.exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name LIKE 'tasktable session%'`)
	p.waitFor("session lost")
	p.waitFor("node leads")
}

// payloadsInHistory: an edit of a payload has the old and the new one in its line, a delete the old one, so that one
// can see what was changed; no other line has one.
func (c *cage) payloadsInHistory(want ...string) {
	c.t.Helper()
	var with []string
	for _, line := range c.lines(`SELECT jsonb_build_object('line', concat_ws(' ', task_id, verb, outcome),
		'rest', to_jsonb(c) - 'old' - 'new', 'old', old, 'new', new)::text
		FROM tasktable.scheduled_task_changes AS c ORDER BY revision`) {
		var change struct {
			Line     string
			Rest     json.RawMessage
			Old, New map[string]json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &change); err != nil {
			c.t.Fatal(err)
		}
		payloads := string(change.Old["payload"]) + string(change.New["payload"])
		if len(escaped(payloads)) > 0 {
			with = append(with, change.Line)
		}
		delete(change.Old, "payload")
		delete(change.New, "payload")
		rest, err := json.Marshal(change)
		if err != nil {
			c.t.Fatal(err)
		}
		noCanary(c.t, "a line of changes", string(rest))
	}
	if !slices.Equal(with, want) {
		c.t.Errorf("lines with payloads: %q, want %q", with, want)
	}
}

// The commands show no secret either, whatever is wrong with the database or the query.
func TestCommandsTellNoSecrets(t *testing.T) {
	t.Parallel()
	c := newCage(t)
	c.schedule("task-LOG-one", `{"type":"LOG","secret":"`+payloadCanary+`","number":`+numberCanary+`}`,
		func(task *store.Task) {
			task.At = time.Now().Add(time.Hour)
		})
	address, err := url.Parse(c.url)
	if err != nil {
		t.Fatal(err)
	}
	other := func(change func(*url.URL)) string {
		changed := *address
		change(&changed)
		return "DATABASE_URL=" + changed.String()
	}
	query := func(sql string) string { return "--query=" + written(t, "query.sql", sql) }
	columns := `SELECT 'one' AS key, now() + interval '1 hour' AS scheduled_at, `
	changed := query(columns + `'{"secret":"` + payloadCanary + ` new"}'::jsonb AS payload`)
	database := "DATABASE_URL=" + c.url
	another := other(func(u *url.URL) { u.User = url.UserPassword("nobody_of_this_name", databaseCanary) })
	encrypted := other(func(u *url.URL) { u.RawQuery = "sslmode=verify-full" })
	for name, test := range map[string]struct {
		variable string
		args     []string
		code     int
	}{
		"status":          {database, []string{"migrate", "status"}, exitOK},
		"up":              {database, []string{"migrate", "up"}, exitOK},
		"another's login": {another, []string{"migrate"}, exitUnreachable},
		"no such database": {other(func(u *url.URL) { u.Path = "/no_such_database" }), []string{"serve"},
			exitUnreachable},
		"nobody there": {other(func(u *url.URL) { u.Host = "127.0.0.1:1" }), []string{"serve"}, exitUnreachable},
		"no such host": {other(func(u *url.URL) { u.Host = "host.invalid" }), []string{"migrate", "status"},
			exitUnreachable},
		"no TLS there":      {encrypted, []string{"migrate", "status"}, exitUnreachable},
		"no URL":            {"DATABASE_URL=postgres:/u:" + databaseCanary + "@h", []string{"migrate"}, exitUsage},
		"a wrong parameter": {database + "&pool_max_conns=" + databaseCanary, []string{"migrate"}, exitUsage},
		"no such setting":   {database + "&no_such_setting=1", []string{"migrate"}, exitUnreachable},
		"another schema":    {database, []string{"serve", "--schema=other"}, exitUnmigrated},
		"drift":             {database, []string{"reconcile", "--type=LOG", changed}, exitDrift},
		"what is no payload": {database, []string{"reconcile", "--type=LOG", "--apply",
			query(columns + `'"` + payloadCanary + `"'::jsonb AS payload`)}, exitUsage},
		"too large a payload": {database, []string{"reconcile", "--type=LOG", "--apply",
			query(columns + `jsonb_build_object('secret', repeat('` + payloadCanary + `', 20000)) AS payload`)},
			exitUsage},
		"mended": {database, []string{"reconcile", "--type=LOG", "--apply", changed}, exitOK},

		"doctor": {database, []string{"doctor", "--skip=settings,connection"}, exitOK},
		"doctor as JSON": {database, []string{"doctor", "--skip=settings,connection", "--output=json"},
			exitOK},
		"doctor and another's login": {another, []string{"doctor"}, exitUnreachable},
		"doctor and no TLS there":    {encrypted, []string{"doctor", "--output=json"}, exitUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			got := run(t, []string{test.variable, "TASKTABLE_LOG_LEVEL=debug", "TASKTABLE_UNKNOWN=" + mailCanary},
				test.args...)
			got.want(t, test.code)
			noCanary(t, "the output", got.stdout+got.stderr)
		})
	}
}
