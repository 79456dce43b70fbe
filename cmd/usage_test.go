package cmd

import (
	"strings"
	"testing"
)

// All of these fail before a database is opened: one would be unreachable, exit code 4.
func TestBadUsageNamesTheOptionAndTheRule(t *testing.T) {
	t.Parallel()
	const nowhere = "DATABASE_URL=postgres://127.0.0.1:1/x"
	for _, test := range []struct {
		name      string
		variables []string
		args      []string
		want      []string
	}{
		{"poll interval", nil, []string{"serve", "--poll-interval=1ms"},
			[]string{
				`--poll-interval (TASKTABLE_POLL_INTERVAL) must be between 1s and 1h, such as 1500ms, ` +
					`90s, 1h30m or 2d, got "1ms"`,
			}},
		{"by variable", []string{"TASKTABLE_POLL_INTERVAL=soon"}, []string{"serve"},
			[]string{
				`--poll-interval (TASKTABLE_POLL_INTERVAL) must be between 1s and 1h, such as 1500ms, ` +
					`90s, 1h30m or 2d, got "soon"`,
			}},
		{"look ahead", nil, []string{"serve", "--look-ahead=11s"},
			[]string{"--look-ahead (TASKTABLE_LOOK_AHEAD) must be between 0s and 10s"}},
		{"negative", nil, []string{"serve", "--look-ahead=-1ns"},
			[]string{"--look-ahead (TASKTABLE_LOOK_AHEAD) must be between 0s and 10s"}},
		{"start allowance", nil, []string{"serve", "--start-allowance=2h"},
			[]string{"--start-allowance (TASKTABLE_START_ALLOWANCE) must be between 1s and 1h"}},
		{"shutdown timeout", nil, []string{"serve", "--shutdown-timeout=5"},
			[]string{`--shutdown-timeout (TASKTABLE_SHUTDOWN_TIMEOUT) must be between 0s and 1d`,
				`got "5"`}},
		{"engine conns", nil, []string{"serve", "--engine-conns=2"},
			[]string{`--engine-conns (TASKTABLE_ENGINE_CONNS) must be a whole number from 3 to 100, got "2"`}},
		{"max conns", []string{"TASKTABLE_MAX_CONNS=many"}, []string{"serve"},
			[]string{`--max-conns (TASKTABLE_MAX_CONNS) must be a whole number from 1 to 1000, got "many"`}},
		{"queue without slots", nil, []string{"serve", "--queue=mail"},
			[]string{`--queue (TASKTABLE_QUEUES) must be name=slots`, `got "mail"`}},
		{"queue with no slot", nil, []string{"serve", "--queue=mail=0"},
			[]string{`with 1 to 10000 slots, got "mail=0"`}},
		{"queue twice", nil, []string{"serve", "--queue=a=1", "--queue=a=2"},
			[]string{`each name once`, `got "a=1,a=2"`}},
		{"queue name", []string{"TASKTABLE_QUEUES=Mail=1"}, []string{"serve"},
			[]string{`--queue (TASKTABLE_QUEUES) must be name=slots`, `got "Mail=1"`}},
		{"pause", nil, []string{"serve", "--pause=mail"},
			[]string{
				`--pause (TASKTABLE_PAUSED) must be all, queue:NAME or type:NAME, or several separated by commas, ` +
					`got "mail"`,
			}},
		{"pause of no queue", []string{"TASKTABLE_PAUSED=all,queue:"}, []string{"serve"},
			[]string{`--pause (TASKTABLE_PAUSED) must be all, queue:NAME or type:NAME`, `got "all,queue:"`}},
		{"retention", nil, []string{"serve", "--retention=90 days"},
			[]string{
				`--retention (TASKTABLE_RETENTION) must be off or a duration between 1m and 100 years, such as 30d, got "90 days"`,
			}},
		{"no retention", nil, []string{"serve", "--retention=0"},
			[]string{`--retention (TASKTABLE_RETENTION) must be off or a duration between 1m`}},
		{"role", nil, []string{"serve", "--role=king"},
			[]string{`--role (TASKTABLE_ROLE) must be one of worker, leader, both, got "king"`}},
		{"a queue twice in a row", nil, []string{"serve", "--queue=a=1,b=1", "--strict-queues=a,b,a"},
			[]string{`--strict-queues (TASKTABLE_STRICT_QUEUES) must be names of queues separated by commas, each once`,
				`got "a,b,a"`}},
		{"a row of queues with numbers", []string{"TASKTABLE_STRICT_QUEUES=default=1"}, []string{"serve"},
			[]string{`--strict-queues (TASKTABLE_STRICT_QUEUES) must be names of queues`, `got "default=1"`}},
		{"a row of queues that the node does not work", nil, []string{"serve", "--queue=a=1,b=1", "--strict-queues=b, c"},
			[]string{`--strict-queues (TASKTABLE_STRICT_QUEUES) must name queues that this node works (--queue), which are ` +
				`a, b, got "c"`}},
		{"slots of a type without a number", nil, []string{"serve", "--type-slots=LOG"},
			[]string{`--type-slots (TASKTABLE_TYPE_SLOTS) must be TYPE=slots, or several separated by commas`,
				`got "LOG"`}},
		{"slots of a type that is not there", []string{"TASKTABLE_TYPE_SLOTS=LOG=2,MAIL=3"}, []string{"serve"},
			[]string{`--type-slots (TASKTABLE_TYPE_SLOTS) must name types that this node runs, which are ` +
				`HTTP_REQUEST, LOG, got "MAIL"`}},
		{"retention of no type", nil, []string{"serve", "--retention-type=24h"},
			[]string{
				`--retention-type (TASKTABLE_RETENTION_TYPES) must be TYPE=period, or several separated by commas`,
				`got "24h"`,
			}},
		{"retention of a type twice", []string{"TASKTABLE_RETENTION_TYPES=LOG=24h,LOG=off"}, []string{"serve"},
			[]string{`each type once, with off or a duration between 1m and 100 years`}},
		{"service", nil, []string{"serve", "--service=" + strings.Repeat("x", 513)},
			[]string{"--service (TASKTABLE_SERVICE) must be at most 512 bytes"}},
		{"schema", []string{"TASKTABLE_SCHEMA=My Schema"}, []string{"migrate"},
			[]string{
				`--schema (TASKTABLE_SCHEMA) must be 1 to 46 of a-z, 0-9 and _, not starting with a digit, ` +
					`got "My Schema"`,
			}},
		{"schema of print", nil, []string{"migrate", "print", "--schema=1"},
			[]string{`--schema (TASKTABLE_SCHEMA) must be 1 to 46`}},
		{"log format", nil, []string{"serve", "--log-format=xml"},
			[]string{`--log-format (TASKTABLE_LOG_FORMAT) must be one of text, json, got "xml"`}},
		{"log level", []string{"TASKTABLE_LOG_LEVEL=loud"}, []string{"migrate", "status"},
			[]string{`--log-level (TASKTABLE_LOG_LEVEL) must be one of debug, info, warn, error, got "loud"`}},
		{"toggle", []string{"TASKTABLE_MIGRATE=maybe"}, []string{"serve"},
			[]string{`--migrate (TASKTABLE_MIGRATE) must be true or false, got "maybe"`}},
		{"data folder", nil, []string{"serve", "--data-dir=a\nb"},
			[]string{`--data-dir (TASKTABLE_DATA_DIR) must be at most 4096 bytes without control characters`}},
		{"all at once", []string{"TASKTABLE_LOG_LEVEL=loud"}, []string{"serve", "--engine-conns=2"},
			[]string{"--engine-conns (", "--log-level ("}},
		{"session URL alone", []string{"DATABASE_URL=", "TASKTABLE_SESSION_DATABASE_URL=postgres://127.0.0.1:1/x"},
			[]string{"serve"},
			[]string{"--session-database-url (TASKTABLE_SESSION_DATABASE_URL) needs --database-url (DATABASE_URL)"}},
		{"HTTP address", nil, []string{"serve", "--http-addr=8080"},
			[]string{`--http-addr (TASKTABLE_HTTP_ADDR) must be host:port or :port, such as :8080`, `got "8080"`}},
		{"HTTP port", []string{"TASKTABLE_HTTP_ADDR=:http"}, []string{"serve"},
			[]string{`--http-addr (TASKTABLE_HTTP_ADDR) must be host:port`, `got ":http"`}},
		{"mail server without sender", nil, []string{"serve", "--smtp-host=mail"},
			[]string{"--smtp-from (TASKTABLE_SMTP_FROM) is missing"}},
		{"sender without mail server", []string{"TASKTABLE_SMTP_FROM=a@example.org"}, []string{"serve"},
			[]string{"--smtp-host (TASKTABLE_SMTP_HOST) is missing"}},
		{"mail server with port", nil, []string{"serve", "--smtp-host=mail:25"},
			[]string{
				`--smtp-host (TASKTABLE_SMTP_HOST) must be a host name or an IP address, without a port, got "mail:25"`,
			}},
		{"port", nil, []string{"serve", "--smtp-port=0"},
			[]string{`--smtp-port (TASKTABLE_SMTP_PORT) must be a whole number from 1 to 65535`}},
		{"TLS mode", nil, []string{"serve", "--smtp-tls=ssl"},
			[]string{`--smtp-tls (TASKTABLE_SMTP_TLS) must be one of starttls, implicit, none, got "ssl"`}},
		{"sender", nil, []string{"serve", "--smtp-from=me"},
			[]string{`--smtp-from (TASKTABLE_SMTP_FROM) must be an e-mail address`}},
		{"user without password", nil, []string{"serve", "--smtp-host=mail", "--smtp-from=a@example.org",
			"--smtp-username=me"}, []string{"must be given together"}},
		{"webhook target", nil, []string{"serve", "--webhook-allow=10.1.0.0/16, example.org:80"},
			[]string{`--webhook-allow (TASKTABLE_WEBHOOK_ALLOW) must be a host such as example.org`,
				`got "10.1.0.0/16, example.org:80"`}},
		{"webhook range", []string{"TASKTABLE_WEBHOOK_DENY=10.0.0.0/33"}, []string{"serve"},
			[]string{`--webhook-deny (TASKTABLE_WEBHOOK_DENY) must be a host such as example.org`}},
		{"webhook timeout", nil, []string{"serve", "--webhook-timeout=11m"},
			[]string{`--webhook-timeout (TASKTABLE_WEBHOOK_TIMEOUT) must be between 100ms and 10m`}},
		{"what only the mail package knows", nil, []string{"serve", "--smtp-host=mail", "--smtp-from=a@exämple.org"},
			[]string{"smtp", "ASCII"}},

		{"check", nil, []string{"doctor", "--check=leader,weather"},
			[]string{"--check (TASKTABLE_DOCTOR_CHECK) must be of connection, room, versions", `got "leader,weather"`}},
		{"skipped check", []string{"TASKTABLE_DOCTOR_SKIP=weather"}, []string{"doctor"},
			[]string{"--skip (TASKTABLE_DOCTOR_SKIP) must be of connection"}},

		{"unknown option", nil, []string{"serve", "--pol-interval=5s"},
			[]string{"there is no option --pol-interval; did you mean --poll-interval?"}},
		{"one dash", nil, []string{"serve", "-queue=a=1"}, []string{"options have two dashes"}},
		{"missing value", nil, []string{"serve", "--schema"}, []string{"--schema"}},
		{"unknown command", nil, []string{"sever"}, []string{`"tasktable" has no command "sever"`}},
		{"unknown subcommand", nil, []string{"migrate", "dow"},
			[]string{`"tasktable migrate" has no command "dow"; did you mean down?`}},
		{"argument", nil, []string{"serve", "now"},
			[]string{`"tasktable serve" takes no arguments, only options, got "now"`}},
		{"argument of a group", nil, []string{"tasks", "lst"},
			[]string{`"tasktable tasks" has no command "lst"; did you mean list?`}},
		{"no id", nil, []string{"tasks", "show"}, []string{`"tasktable tasks show" needs one ID`}},
		{"two ids", nil, []string{"tasks", "show", "a", "b"},
			[]string{`"tasktable tasks show" takes no more than one ID`}},
		{"empty id", nil, []string{"tasks", "cancel", "a", ""},
			[]string{`"tasktable tasks cancel" was given an empty ID`}},
		{"neither ids nor filter", nil, []string{"tasks", "delete"}, []string{"needs the id of a task, or a filter"}},
		{"limit is no filter", nil, []string{"tasks", "delete", "--limit=5", "--yes"},
			[]string{"needs the id of a task, or a filter"}},
		{"reschedule to no time", nil, []string{"tasks", "reschedule", "a"}, []string{"--at is missing"}},
		{"ids and filter", nil, []string{"tasks", "delete", "a", "--type=LOG"},
			[]string{"takes ids or a filter, not both"}},
		{"output", nil, []string{"tasks", "list", "--output=yaml"},
			[]string{`--output (TASKTABLE_OUTPUT) must be one of table, json, got "yaml"`}},
		{"time zone", []string{"TASKTABLE_TIME_ZONE=Mars"}, []string{"tasks", "list"},
			[]string{
				`--time-zone (TASKTABLE_TIME_ZONE) must be an IANA zone, such as Europe/Berlin or UTC, got "Mars"`,
			}},
		{"moment", nil, []string{"tasks", "list", "--scheduled-from=soon"},
			[]string{`--scheduled-from must be a time, such as 2026-11-21 18:00`, `got "soon"`}},
		{"moment that clocks skip", nil, []string{"tasks", "pause", "a", "--until=2026-03-29 02:30",
			"--time-zone=Europe/Berlin"},
			[]string{
				`--until must be a time that clocks in Europe/Berlin show: they are set forward over it, ` +
					`got "2026-03-29 02:30"`,
			}},
		{"status", nil, []string{"tasks", "list", "--status=FAILED,DONE"},
			[]string{
				`--status must be one or several of QUEUED, EXECUTING, COMPLETED, FAILED, EXPIRED, CANCELLED, PAUSED, ` +
					`SKIPPED, got "FAILED,DONE"`,
			}},
		{"queue of a filter", nil, []string{"tasks", "list", "--queue=Mail"},
			[]string{`--queue must be 1 to 64 of a-z, 0-9, inner - or _, got "Mail"`}},
		{"no type", nil, []string{"tasks", "schedule", "--payload={}"}, []string{"--type must be given, because the payload has no field type"}},
		{"two types", nil, []string{"tasks", "schedule", "--type=LOG", `--payload={"type": "MAIL"}`},
			[]string{`payload must have no field type other than "LOG"`}},
		{"payload", nil, []string{"tasks", "schedule", "--type=LOG", `--payload={"a": nil}`},
			[]string{"--payload must be a JSON object: it is wrong at byte 8"}},
		{"payload that is no object", nil, []string{"tasks", "schedule", "--type=LOG", `--payload=[1]`},
			[]string{"--payload must be a JSON object"}},
		{"payload of no file", nil, []string{"tasks", "schedule", "--type=LOG", `--payload=@/nonexistent.json`},
			[]string{"--payload: open /nonexistent.json: no such file"}},
		{"recurring without id", nil, []string{"tasks", "schedule", "--type=LOG", "--cron=@daily"},
			[]string{"--id is missing"}},
		{"cron", nil, []string{"tasks", "schedule", "--type=LOG", "--id=a", "--cron=daily"}, []string{"cron"}},
		{"policy of no recurring task", nil, []string{"tasks", "schedule", "--type=LOG", "--overlap=skip"},
			[]string{"--cron is missing"}},
		{"priority", nil, []string{"tasks", "schedule", "--type=LOG", "--priority=101"},
			[]string{`--priority must be between -100 and 100, got "101"`}},
		{"neither ids nor a filter of dead letters", nil, []string{"dead", "retry"},
			[]string{"needs the id of a task, or a filter such as --type, or --all"}},
		{"limit is no filter of dead letters", nil, []string{"dead", "archive", "--limit=5", "--yes"},
			[]string{"needs the id of a task, or a filter"}},
		{"ids and all", nil, []string{"dead", "retry", "a", "--all"},
			[]string{`"tasktable dead retry" takes ids or a filter, not both`}},
		{"filter and all", nil, []string{"dead", "retry", "--type=LOG", "--all"},
			[]string{"--all and a filter cannot be given together"}},
		{"status of no dead letter", nil, []string{"dead", "list", "--status=queued"},
			[]string{`--status must be one or several of FAILED, EXPIRED, got "queued"`}},
		{"page of groups", nil, []string{"dead", "list", "--group", "--after=a"},
			[]string{"--after and --asc are for lists, not for --group"}},
		{"two statuses", nil, []string{"recurring", "list", "--status=PAUSED,QUEUED"},
			[]string{"--status must be one status"}},
		{"next of nothing", nil, []string{"recurring", "next"},
			[]string{`"tasktable recurring next" needs the ID of a task, or --cron`}},
		{"next of two", nil, []string{"recurring", "next", "a", "--cron=@daily"},
			[]string{`"tasktable recurring next" takes an ID or --cron, not both`}},
		{"zone of a task", nil, []string{"recurring", "next", "a", "--cron-time-zone=UTC"},
			[]string{"--cron is missing: --cron-time-zone, --every,", "are for an expression"}},
		{"next of no expression", nil, []string{"recurring", "next", "--cron=0 24 * * *"},
			[]string{"cron: hour 24 is not in 0-23"}},
		{"next in no zone", nil, []string{"recurring", "next", "--cron=@daily", "--cron-time-zone=Mars"},
			[]string{`time_zone must be an IANA zone`}},
		{"nothing to pause", nil, []string{"queues", "pause"}, []string{`"tasktable queues pause" needs one SCOPE`}},
		{"scope", nil, []string{"queues", "pause", "Mail"},
			[]string{"SCOPE must be the name of a queue, type: and the name of a type, or all", `got "Mail"`}},
		{"another scope", nil, []string{"queues", "resume", "tenant:acme"},
			[]string{"SCOPE must be the name of a queue, type: and the name of a type, or all"}},
		{"no name of a key", nil, []string{"keys", "create", "--scope=read"},
			[]string{`"tasktable keys create" needs one NAME`}},
		{"name of a key", nil, []string{"keys", "create", "a b", "--scope=read"},
			[]string{`name must be 1 to 63 letters, digits or _.-, got "a b"`}},
		{"no scope", nil, []string{"keys", "create", "a"}, []string{"--scope is missing"}},
		{"scope of a key", nil, []string{"keys", "create", "a", "--scope=read,write"},
			[]string{
				`--scope must be of read, schedule, operate, admin, one or several separated by commas, got "read,write"`,
			}},
		{"rate of a key", nil, []string{"keys", "create", "a", "--scope=read", "--rate=0"},
			[]string{"--rate must be a whole number from 1 to 1000000"}},
		{"life of a key", nil, []string{"keys", "create", "a", "--scope=read", "--expires-in=soon"},
			[]string{`--expires-in must be between 1s and 100 years, such as 1500ms, 90s, 1h30m or 2d, got "soon"`}},
		{"tenant of a key", nil,
			[]string{"keys", "create", "a", "--scope=read", "--tenant=" + strings.Repeat("x", 513)},
			[]string{"--tenant must be at most 512 bytes"}},
		{"two keys to revoke", nil, []string{"keys", "revoke", "a", "b"},
			[]string{`"tasktable keys revoke" takes no more than one NAME`}},
		{"no window", nil, []string{"stats", "--since=0s"},
			[]string{`--since must be between 1s and 100 years, such as 1500ms, 90s, 1h30m or 2d, got "0s"`}},
		{"moment as a window", nil, []string{"stats", "--since=yesterday"},
			[]string{`--since must be between 1s`}},
		{"down without yes", nil, []string{"migrate", "down"}, []string{"removes all tasks", "--yes"}},
		{"down with no", nil, []string{"migrate", "down", "--yes=false"}, []string{"--yes"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := run(t, append([]string{nowhere}, test.variables...), test.args...)
			got.want(t, exitUsage, append(test.want, `--help".`)...)
			if got.stdout != "" {
				t.Errorf("stdout: %s", got.stdout)
			}
		})
	}
}

func TestSecretsAreNeverShown(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for name, test := range map[string]struct {
		variables []string
		args      []string
	}{
		"not a URL":             {[]string{"DATABASE_URL=hunter2"}, []string{"serve"}},
		"slash in the password": {[]string{"DATABASE_URL=postgres://u:hunter2/x@h/db"}, []string{"serve"}},
		"slash before it":       {[]string{"DATABASE_URL=postgres://u:1/hunter2@h/db"}, []string{"serve"}},
		"percent in it":         {[]string{"DATABASE_URL=postgres://u:%hunter2@h/db"}, []string{"migrate"}},
		"bad port":              {[]string{"DATABASE_URL=postgres://u:hunter2@h:port/db"}, []string{"migrate"}},
		"bad sslmode": {[]string{"DATABASE_URL=postgres://u:hunter2@h/db?sslmode=no"},
			[]string{"migrate"}},
		"in the query": {[]string{"DATABASE_URL=postgres://h/db?sslmode=no&password=hunter2"},
			[]string{"migrate"}},
		"bad pairs":                {[]string{"DATABASE_URL=host=h password = hunter2 dbname"}, []string{"migrate"}},
		"bad quotes":               {[]string{"DATABASE_URL=host=h password='hunter2"}, []string{"migrate"}},
		"another kind of database": {[]string{"DATABASE_URL=mysql://u:hunter2@h/db"}, []string{"migrate"}},
		"by flag":                  {nil, []string{"migrate", "--database-url=postgres://u:hunter2@h:port/db"}},
		"session": {[]string{"TASKTABLE_SESSION_DATABASE_URL=postgres://u:hunter2@h:port/db"},
			[]string{"migrate"}},
		"as an argument":         {nil, []string{"migrate", "postgres://u:hunter2@h/db"}},
		"behind a wrong flag":    {nil, []string{"migrate", "--databse-url=postgres://u:hunter2@h/db"}},
		"behind one dash":        {nil, []string{"migrate", "-postgres://u:hunter2@h/db"}},
		"a URL as the mail host": {nil, []string{"serve", "--smtp-host=smtp://u:hunter2@mail:587"}},
		"a URL as a variable":    {[]string{"TASKTABLE_SCHEMA=postgres://u:hunter2@h/db"}, []string{"migrate"}},
		"as a scope":             {nil, []string{"queues", "pause", "postgres://u:hunter2@h/db"}},
		"as an id":               {nil, []string{"tasks", "show", "postgres://u:hunter2@h/db"}},
		"in a payload": {nil, []string{"tasks", "schedule", "--type=LOG",
			`--payload={"password": "hunter2"`}},
		"SMTP password":     {nil, []string{"serve", "--smtp-password=hunter2\n"}},
		"a URL as a target": {nil, []string{"serve", "--webhook-allow=https://u:hunter2@example.org"}},
		"webhook secret":    {nil, []string{"serve", "--webhook-secret=orders=whsec_hunter2"}},
		"webhook secret alone": {[]string{"TASKTABLE_WEBHOOK_SECRETS=whsec_hunter2hunter2hunter2hunter2"},
			[]string{"serve"}},
		"SMTP password alone": {[]string{"TASKTABLE_SMTP_PASSWORD=hunter2"}, []string{"serve"}},
		"SMTP beside others": {[]string{"TASKTABLE_SMTP_PASSWORD=hunter2", "TASKTABLE_SMTP_USERNAME=u",
			"TASKTABLE_SMTP_FROM=a@exämple.org",
			"TASKTABLE_SMTP_HOST=mail"}, []string{"serve"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := run(t, append([]string{"DATABASE_URL=postgres://127.0.0.1:1/x"}, test.variables...), test.args...)
			got.want(t, exitUsage)
			if strings.Contains(got.stderr+got.stdout, secret) {
				t.Errorf("shows the secret: %s", got.stderr)
			}
		})
	}
}

func TestWrongURLTellsItsRule(t *testing.T) {
	for given, want := range map[string]string{
		"postgres://u:p@h:port/db":                         "(invalid port)",
		"postgres://u:p@h/db?sslmode=no":                   "(failed to configure TLS)",
		"postgres://u:p@h/db?pool_max_conns=x":             "(cannot parse pool_max_conns)",
		"postgres://u:p@h/db?sslrootcert=/nonexistent.crt": "/nonexistent.crt",
		"postgres://u:p/q@h/db":                            "%2F",
	} {
		run(t, []string{"DATABASE_URL=" + given}, "migrate").want(t, exitUsage,
			"--database-url (DATABASE_URL) must be postgres://", want)
	}
}
