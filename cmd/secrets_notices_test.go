//go:build unix

package cmd

import (
	"strings"
	"testing"
)

// detailCanary is a value of a payload that a program prints. So it is in the error, the history and the log, and must
// not be in the messages of a rule without details.
const detailCanary = "cAnAry-of-a-detail-7x"

// A node with secrets works commands, statements and requests with secrets, all of which go wrong, and tells them in
// each form that a notice has, to receivers of which some go wrong, too. No message, row, log or metric has a secret.
func TestNoticesTellNoSecrets(t *testing.T) {
	t.Parallel()
	c := newCage(t)
	c.mailPort = rudeServer(t)
	box := newMailbox(t)
	node, base := probed(t, c.withNotices(box), "--log-level=debug", "--commands="+c.commands())
	c.rules()
	c.dies(box.URL)
	for path, parts := range map[string][]string{
		"/hook":  {`"type":"HTTP_REQUEST"`, `"type":"EXEC"`, `"type":"RUN_SQL"`, `err [TOKEN]`},
		"/slack": {"HTTP_REQUEST", "err [TOKEN]"}, "/phone": {"RUN_SQL", "err [TOKEN]"}, "/terse": {"EXEC:says"},
	} {
		for _, part := range parts {
			box.gets(func(one letter) bool {
				return strings.HasPrefix(one.path, path) && strings.Contains(one.body, part)
			}, nil)
		}
	}
	ask(t, c.url, `SELECT string_agg(DISTINCT split_part(e.task_id, '/', 3) || ' ' || e.outcome, ', ')
		FROM tasktable.scheduled_task_executions AS e WHERE e.type = 'NOTICE' AND e.error IS NOT NULL`,
		"ann RETRIED, refuses RETRIED")
	for _, one := range box.all() {
		if strings.HasPrefix(one.path, "/refuses/calls") {
			continue // the requests of the tasks have the payload
		}
		body := strings.ReplaceAll(one.body, `\`, "") // Discord's markup has one before each hyphen
		noCanary(t, "a message to "+one.path[:5], body)
		if strings.Contains(body, detailCanary) {
			t.Errorf("a detail is in the message to %s: %s", one.path[:5], one.body)
		}
		if strings.Contains(one.header, webhookCanary) || strings.Contains(one.header, payloadCanary) ||
			strings.Contains(one.header, noticeCanary) != strings.HasPrefix(one.path, "/phone") {
			t.Errorf("the header of a message to %s: %s", one.path[:5], one.header)
		}
	}
	listed := run(t, []string{"DATABASE_URL=" + c.url}, "notices", "list")
	_, metrics := get(t, base+"/metrics")
	got := node.stop("SQLSTATE 23505", "the server answered 535 5.7.8")
	for where, text := range map[string]string{"the log": got.stderr + got.stdout, "the metrics": metrics,
		"the list": listed.stdout + listed.stderr} {
		noCanary(t, where, text)
	}
	c.noneIn(map[string]string{
		"executions": `SELECT e::text FROM tasktable.scheduled_task_executions AS e`,
		"causes":     `SELECT n::text FROM tasktable.notice_causes AS n`,
		"episodes":   `SELECT n::text FROM tasktable.notice_episodes AS n`,
		"recipients": `SELECT n::text FROM tasktable.notice_recipients AS n`,
		"notices":    `SELECT t::text FROM tasktable.scheduled_tasks AS t WHERE t.type LIKE 'NOTICE%'`,
		"tasks":      `SELECT (to_jsonb(t) - 'payload')::text FROM tasktable.scheduled_tasks AS t`,
		"changes":    `SELECT h::text FROM tasktable.scheduled_task_changes AS h`,
		"jobs":       `SELECT row FROM public.jobs_seen`,
	})
}

// withNotices are the variables of a node with a target of each kind of secret, and a mail server.
func (c *cage) withNotices(box *mailbox) []string {
	target := func(name, kind string) string {
		return name + "=" + kind + ":" + box.URL + "/" + name + "/" + noticeCanary + "?key=" + noticeCanary
	}
	return []string{
		"DATABASE_URL=" + c.url, "TASKTABLE_SMTP_HOST=127.0.0.1", "TASKTABLE_SMTP_PORT=" + c.mailPort,
		"TASKTABLE_SMTP_TLS=none", "TASKTABLE_SMTP_USERNAME=mailer", "TASKTABLE_SMTP_PASSWORD=" + mailCanary,
		"TASKTABLE_SMTP_FROM=a@example.org", "TASKTABLE_WEBHOOK_ALLOW=127.0.0.0/8",
		"TASKTABLE_WEBHOOK_SECRETS=hook=" + webhookCanarySecret, "TASKTABLE_NOTICE_TOKENS=phone=" + noticeCanary,
		"TASKTABLE_NOTICE_TARGETS=" + strings.Join([]string{target("hook", "webhook"), target("slack", "slack"),
			target("phone", "ntfy"), target("terse", "discord"), target("refuses", "teams")}, ","),
	}
}

// commands is a file of commands that print a secret, and of a statement whose error has a row as detail.
func (c *cage) commands() (file string) {
	c.t.Helper()
	token := written(c.t, "token", noticeCanary)
	program := `{path: /bin/sh, args: [-c, 'echo "out $TOKEN"; echo "err $TOKEN $1" >&2; exit 1', sh], secrets: {TOKEN: ` +
		token + `}, extra-args: {max: 1, pattern: ".+"}}`
	c.exec(`CREATE TABLE public.members (name text UNIQUE)`)
	c.exec(`INSERT INTO public.members VALUES ('` + payloadCanary + `')`)
	return written(c.t, "commands.yaml", `
commands:
  fails: `+program+`
  says: `+program+`
statements:
  joins: {sql: INSERT INTO public.members VALUES (@name), params: {name: text}}
`)
}

// rules tell all failures to all, and those of the command says without details.
func (c *cage) rules() {
	c.t.Helper()
	variables := []string{"DATABASE_URL=" + c.url}
	for name, option := range map[string]string{"hook": "--target=hook", "slack": "--target=slack", "phone": "--target=phone",
		"terse": "--target=terse", "refuses": "--target=refuses", "ann": "--email=ann@example.org"} {
		run(c.t, variables, "notices", "recipients", "set", name, option).want(c.t, exitOK)
	}
	run(c.t, variables, "notices", "set", "all", "--event=failed,expired,recovered", "--to=hook,slack,phone,refuses,ann",
		"--type=EXEC,RUN_SQL,HTTP_REQUEST,LOG", "--digest=1s").want(c.t, exitOK)
	run(c.t, variables, "notices", "set", "says", "--event=failed", "--type=EXEC:says", "--to=terse", "--no-details",
		"--digest=off").want(c.t, exitOK)
}

// dies schedules tasks that fail, with secrets in their payloads.
func (c *cage) dies(calls string) {
	c.t.Helper()
	const canary = payloadCanary
	for id, payload := range map[string]string{
		"command":   `{"type": "EXEC", "command": "fails"}`,
		"says":      `{"type": "EXEC:says", "args": ["` + detailCanary + `"]}`,
		"statement": `{"type": "RUN_SQL", "statement": "joins", "params": {"name": "` + canary + `"}}`,
		"request": `{"type": "HTTP_REQUEST", "url": "` + calls + `/refuses/calls/` + canary +
			`?token=` + canary + `", "headers": {"Authorization": "Bearer ` + canary + `"}, "body": {"secret": "` + canary + `"}}`,
		"undecodable": `{"type": "LOG", "message": {"` + canary + `": "` + canary + `"}, "number": ` + numberCanary + `}`,
		"parameters":  `{"type": "RUN_SQL", "statement": "joins", "params": {"name": ` + numberCanary + `}}`,
	} {
		c.schedule(id, payload, nil)
	}
}
