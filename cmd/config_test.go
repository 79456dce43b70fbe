package cmd

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/store/storetest"
)

// written is a file of the test's own.
func written(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// told is what the command config tells of each option.
func told(t *testing.T, variables []string, args ...string) map[string]options.Setting {
	t.Helper()
	got := run(t, variables, append([]string{"config", "--output=json"}, args...)...)
	got.want(t, exitOK)
	var rows []options.Setting
	if err := json.Unmarshal([]byte(got.stdout), &rows); err != nil {
		t.Fatalf("%v: %s", err, got.stdout)
	}
	found := map[string]options.Setting{}
	for _, row := range rows {
		if _, twice := found[row.Option]; twice {
			t.Errorf("%s is told of twice", row.Option)
		}
		found[row.Option] = row
	}
	return found
}

func TestFlagWinsOverVariableOverFileOverDefault(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name      string
		file      string
		variables []string
		args      []string
		want      options.Setting
	}{
		{"default", "", nil, nil, options.Setting{Value: "1m0s", From: options.FromDefault}},
		{"empty file", "# nothing\n---\n", nil, nil, options.Setting{Value: "1m0s", From: options.FromDefault}},
		{"file", "schema: a\npoll-interval: 2s\n", nil, nil,
			options.Setting{Value: "2s", From: options.FromFile, Place: "FILE:2"}},
		{"quoted", `poll-interval: "2s"`, nil, nil, options.Setting{Value: "2s", From: options.FromFile,
			Place: "FILE:1"}},
		{"JSON", `{"poll-interval": "2s"}`, nil, nil, options.Setting{Value: "2s", From: options.FromFile,
			Place: "FILE:1"}},
		{"empty in the file", "poll-interval:\n", nil, nil, options.Setting{Value: "1m0s", From: options.FromDefault}},
		{"variable over file", "poll-interval: 2s", []string{"TASKTABLE_POLL_INTERVAL=3s"}, nil,
			options.Setting{Value: "3s", From: options.FromEnvironment, Place: "TASKTABLE_POLL_INTERVAL"}},
		{"empty variable", "poll-interval: 2s", []string{"TASKTABLE_POLL_INTERVAL="}, nil,
			options.Setting{Value: "2s", From: options.FromFile, Place: "FILE:1"}},
		{"flag over both", "poll-interval: 2s", []string{"TASKTABLE_POLL_INTERVAL=3s"},
			[]string{"--poll-interval=4s"}, options.Setting{Value: "4s", From: options.FromFlag}},
		{"empty flag", "poll-interval: 2s", []string{"TASKTABLE_POLL_INTERVAL=3s"}, []string{"--poll-interval="},
			options.Setting{Value: "1m0s", From: options.FromDefault}},
		{"wrong in the file, hidden by a flag", "poll-interval: soon", nil, []string{"--poll-interval=4s"},
			options.Setting{Value: "4s", From: options.FromFlag}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			path := written(t, "tasktable.yaml", test.file)
			test.want.Option = "poll-interval"
			test.want.Place = strings.ReplaceAll(test.want.Place, "FILE", path)
			for how, got := range map[string]map[string]options.Setting{
				"by flag":     told(t, test.variables, append([]string{"--config=" + path}, test.args...)...),
				"by variable": told(t, append([]string{"TASKTABLE_CONFIG=" + path}, test.variables...), test.args...),
			} {
				if got["poll-interval"] != test.want {
					t.Errorf("%s: got %+v, want %+v", how, got["poll-interval"], test.want)
				}
				if got["config"].Value != path {
					t.Errorf("%s: got %+v", how, got["config"])
				}
			}
		})
	}
}

func TestValuesOfAFile(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ file, option, want string }{
		{"queue: {default: 50, mail: 5}", "queue", "default=50,mail=5"},
		{"queue:\n  default: 50\n  mail: '5'\n", "queue", "default=50,mail=5"},
		{"queue: [default=50, mail=5]", "queue", "default=50,mail=5"},
		{"queue: default=50, mail=5", "queue", "default=50, mail=5"},
		{"type-slots: {HTTP_REQUEST: 20, LOG: 5}", "type-slots", "HTTP_REQUEST=20,LOG=5"},
		{"retention-type: {LOG: 24h, SEND_EMAIL: off}", "retention-type", "LOG=24h,SEND_EMAIL=off"},
		{"pause: [type:SEND_EMAIL, queue:mail]", "pause", "type:SEND_EMAIL,queue:mail"},
		{"pause:\n  - type:SEND_EMAIL\n", "pause", "type:SEND_EMAIL"},
		{"pause: all", "pause", "all"},
		{"share-slots: true", "share-slots", "true"},
		{"share-slots: 1", "share-slots", "1"},
		{"engine-conns: 7", "engine-conns", "7"},
		{"retention: off", "retention", "off"},
		{"reconcile-timeout: 2m", "reconcile-timeout", "2m"}, // of another command
		{"application-service: [a, b]", "application-service", "a,b"},
		{"database-url: postgres://u:p%40s@db.example.org/app?sslpassword=geheim", "database-url",
			"postgres://u:xxxxx@db.example.org:5432/app"},
		{"database-url: host=db.example.org user=u dbname=app", "database-url", "postgres://u@db.example.org:5432/app"},
		{"database-url: postgres://u:p@a:1,b:2/app", "database-url", "postgres://u:xxxxx@a:1,b:2/app"},
		{"smtp-password: geheim", "smtp-password", "xxxxx"},
		{"webhook-allow: [10.1.0.0/16, '*.example.org']", "webhook-allow", "10.1.0.0/16,*.example.org"},
		{"webhook-secret: {orders: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw}", "webhook-secret", "xxxxx"},
		{"webhook-secret:\n  - orders=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n" +
			"  - orders=whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n", "webhook-secret", "xxxxx"},
		{"service: a:b@c", "service", "xxxxx"},
	} {
		t.Run(test.file, func(t *testing.T) {
			t.Parallel()
			got := told(t, nil, "--config="+written(t, "tasktable.yaml", test.file))[test.option]
			if got.Value != test.want || got.From != options.FromFile {
				t.Errorf("got %+v, want %s", got, test.want)
			}
		})
	}
}

func TestWrongFileNamesTheKeyAndTheRule(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, file string
		want       []string
	}{
		{"unknown", "schema: a\npol-interval: 2s",
			[]string{`FILE:2: there is no option "pol-interval"; did you mean poll-interval?`}},
		{"unknown, like none", "colour: blue", []string{`FILE:1: there is no option "colour"`}},
		{"of the command line alone", "yes: true", []string{`FILE:1: there is no option "yes"`}},
		{"itself", "config: a.yaml", []string{`FILE:1: there is no option "config"`}},
		{"no option in a file", "schema-file: a", []string{`FILE:1: there is no option "schema-file"`}},
		{"no name", "postgres://u:geheim@h/db: 1",
			[]string{"FILE:1: the text before the colon must be the name of an option"}},
		{"twice", "schema: a\nschema: b", []string{"FILE:2: schema is there twice"}},
		{"wrong kind", "engine-conns: many",
			[]string{`FILE:1: engine-conns must be a whole number from 3 to 100, got "many"`}},
		{"wrong toggle", "share-slots: maybe", []string{`FILE:1: share-slots must be true or false, got "maybe"`}},
		{"wrong of another command", "reconcile-timeout: soon",
			[]string{`FILE:1: reconcile-timeout must be between`, `got "soon"`}},
		{"list of one", "schema: [a]", []string{"FILE:1: schema must be one value, without a list"}},
		{"mapping of no pairs", "pause: {type: X}", []string{"FILE:1: pause must be a scope or a list of these"}},
		{"pair in a list", "pause: [type: XX]", []string{"FILE:1: pause must be a plain value; put quotes"}},
		{"list in a mapping", "queue: {default: [1]}", []string{"FILE:1: queue must be a plain value"}},
		{"wrong item", "queue: {default: 0}", []string{"FILE:1: queue must be name=slots", `got "default=0"`}},
		{"alias", "schema: &a a\nservice: *a", []string{"FILE:1: schema must be a plain value",
			"FILE:2: service must be a plain value"}},
		{"tag", "schema: !a b", []string{"FILE:1: schema must be a plain value"}},
		{"merge", "<<: {schema: a}", []string{"FILE:1: the text before the colon"}},
		{"no mapping", "- schema", []string{"FILE: must be lines of the form option: value"}},
		{"two documents", "schema: a\n---\nschema: b", []string{"FILE: must be one YAML document"}},
		{"no YAML", "schema: a\n  b: c", []string{"FILE: line 2: mapping values are not allowed in this context"}},
		{"unclosed mapping", "schema: a\nqueue: {default: 1\nservice: b",
			[]string{"FILE: line 2: did not find expected ',' or '}'"}},
		{"unclosed to the end", "queue: [a", []string{"FILE: line 2: did not find expected ',' or ']'"}},
		{"item of a block", "schema: a\nqueue:\n  default: 5\n  mail: 0", []string{"FILE:4: queue must be name=slots"}},
		{"item of a list", "pause:\n- all\n- nonsense", []string{"FILE:3: pause must be"}},
		{"value below its key", "engine-conns:\n  many", []string{"FILE:2: engine-conns must be"}},
		{"list below its key", "queue:\n  mail:\n    [5]", []string{"FILE:3: queue must be a plain value"}},
		{"all at once", "schema: [a]\nno: 1\nqueue: {a: [b]}",
			[]string{"FILE:1: schema", "FILE:2: there", "FILE:3: queue"}},
		{"two secrets", "smtp-password: a\nsmtp-password-file: b",
			[]string{"FILE:2: both smtp-password and smtp-password-file are there: give one of them"}},
		{"no secret there", "smtp-password-file: /nowhere/password",
			[]string{"FILE:1: open /nowhere/password: no such file"}},
		{"wrong secret", "database-url: geheim", []string{"FILE:1: database-url must be postgres://"}},
		{"too large", "# " + strings.Repeat("x", 1<<20), []string{"FILE: has more than 1048576 bytes"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			path := written(t, "tasktable.yaml", test.file)
			got := run(t, nil, "config", "--config="+path)
			for i := range test.want {
				test.want[i] = strings.ReplaceAll(test.want[i], "FILE", path)
			}
			got.want(t, exitUsage, append(test.want, `See "tasktable config --help".`)...)
			if got.stdout != "" || strings.Contains(got.stderr, "geheim") {
				t.Errorf("says too much: %s%s", got.stdout, got.stderr)
			}
		})
	}
	open := written(t, "tasktable.yaml", "schema: a\n")
	if err := os.Chmod(open, 0o666); err != nil {
		t.Fatal(err)
	}
	const rule = "must not be writable by everybody, but has mode 0666"
	run(t, nil, "config", "--config="+open).want(t, exitUsage, open+": "+rule)
	run(t, nil, "serve", "--commands="+open).want(t, exitUsage, "--commands (TASKTABLE_COMMANDS): "+open+": "+rule)
	run(t, []string{"TASKTABLE_SMTP_PASSWORD_FILE=" + open}, "config").want(t, exitUsage,
		"TASKTABLE_SMTP_PASSWORD_FILE: the file "+open+": "+rule)
	run(t, nil, "serve", "--config=/nowhere/tasktable.yaml").want(t, exitUsage,
		"--config (TASKTABLE_CONFIG): open /nowhere/tasktable.yaml: no such file")
}

// A slip in a variable is what somebody looks for who asks what is in force.
func TestConfigWarnsOfUnknownVariables(t *testing.T) {
	t.Parallel()
	got := run(t, []string{"TASKTABLE_POL_INTERVAL=5s"}, "config")
	got.want(t, exitOK, "did_you_mean=TASKTABLE_POLL_INTERVAL")
	for row := range strings.Lines(got.stdout) {
		if fields := strings.Fields(row); fields[0] == "service" && (fields[1] == "-" || fields[2] != "default") {
			t.Errorf("the default of service: %q", row)
		}
	}
}

// Whatever of a password YAML takes for something of its own, no error quotes it.
func TestPasswordInAFileIsNeverQuoted(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"geheim", "*geheim", "&geheim", "&geheim x", "!geheim x", "!!geheim x", "@geheim",
		"`geheim", "%geheim", "'geheim", `"geheim`,
		`"\geheim"`, "[geheim", "{geheim", "{geheim: x}", "geheim: x", "? geheim", "> geheim", "|geheim",
		"geheim\n geheim: y", "\tgeheim: x", "[geheim]"} {
		for _, key := range []string{"smtp-password", "database-url", "no-such-option"} {
			got := run(t, nil, "config", "--config="+written(t, "a.yaml", key+": "+value+"\n"))
			if strings.Contains(got.stdout+got.stderr, "geheim") {
				t.Errorf("%s: %s: %s%s", key, value, got.stdout, got.stderr)
			}
		}
	}
}

func TestSecretsFromFiles(t *testing.T) {
	t.Parallel()
	secret := written(t, "url", "postgres://u:geheim@db.example.org/app\r\n\n")
	empty := written(t, "empty", "\n")
	large := written(t, "large", strings.Repeat("x", 64<<10+1))
	want := options.Setting{
		Option: "database-url", Value: "postgres://u:xxxxx@db.example.org:5432/app", From: options.FromEnvironment,
		Place: "DATABASE_URL_FILE",
	}
	if got := told(t, []string{"DATABASE_URL_FILE=" + secret})["database-url"]; got != want {
		t.Errorf("by the variable: %+v", got)
	}
	path := written(t, "tasktable.yaml", "database-url-file: "+secret+"\n")
	want.From, want.Place = options.FromFile, path+":1"
	if got := told(t, nil, "--config="+path)["database-url"]; got != want {
		t.Errorf("by the file: %+v", got)
	}
	want.Value, want.From, want.Place = "postgres://o@other:5432/app", options.FromEnvironment, "DATABASE_URL"
	if got := told(t, []string{"DATABASE_URL=postgres://o@other/app"}, "--config="+path)["database-url"]; got != want {
		t.Errorf("by another variable: %+v", got)
	}
	for name, test := range map[string]struct {
		variables []string
		want      string
	}{
		"both": {
			[]string{"DATABASE_URL=postgres://o@other/app", "DATABASE_URL_FILE=" + secret},
			"--database-url: both DATABASE_URL and DATABASE_URL_FILE are set: give one of them",
		},
		"empty": {
			[]string{"TASKTABLE_SMTP_PASSWORD_FILE=" + empty},
			"TASKTABLE_SMTP_PASSWORD_FILE: the file " + empty + " is empty",
		},
		"too long": {[]string{"TASKTABLE_SMTP_PASSWORD_FILE=" + large}, "has more than 65536 bytes"},
		"nowhere": {
			[]string{"TASKTABLE_SMTP_PASSWORD_FILE=/nowhere/x"},
			"TASKTABLE_SMTP_PASSWORD_FILE: open /nowhere/x: no such file",
		},
		"a folder": {
			[]string{"TASKTABLE_SMTP_PASSWORD_FILE=" + filepath.Dir(empty)}, "TASKTABLE_SMTP_PASSWORD_FILE: read ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, test.variables, "config").want(t, exitUsage, test.want)
		})
	}
	if got := run(
		t,
		[]string{
			"TASKTABLE_SERVICE_FILE=" + secret, "TASKTABLE_SMTP_PASSWORD_FILE=" + empty,
			"DATABASE_URL=postgres://127.0.0.1:1/x",
		},
		"migrate", "status",
	); !strings.Contains(got.stderr, "TASKTABLE_SERVICE_FILE") ||
		strings.Contains(got.stderr, "TASKTABLE_SMTP_PASSWORD_FILE") {
		t.Errorf("warns of %s", got.stderr)
	}
}

func TestConfigTellsNoDefaultsOfOtherCommands(t *testing.T) {
	t.Parallel()
	got := told(t, []string{"TASKTABLE_RECONCILE_TIMEOUT=2m"})
	if got["reconcile-timeout"] != (options.Setting{
		Option: "reconcile-timeout", Value: "2m", From: options.FromEnvironment, Place: "TASKTABLE_RECONCILE_TIMEOUT",
	}) {
		t.Errorf("reconcile-timeout: %+v", got["reconcile-timeout"])
	}
	for _, option := range []string{"reconcile-examples", "bench-tasks"} {
		if row, there := got[option]; there {
			t.Errorf("%+v", row)
		}
	}
	if got["migrate"].Value != "false" ||
		got["http-addr"] != (options.Setting{Option: "http-addr", Value: "", From: options.FromDefault, Place: ""}) {
		t.Errorf("%+v, %+v", got["migrate"], got["http-addr"])
	}
	table := run(t, nil, "config", "--queue=mail=5")
	table.want(t, exitOK)
	if !regexp.MustCompile(`(?m)^OPTION +VALUE +FROM$`).MatchString(table.stdout) ||
		!regexp.MustCompile(`(?m)^queue +mail=5 +flag$`).MatchString(table.stdout) {
		t.Errorf("the table:\n%s", table.stdout)
	}
}

// The example has each option, with a value that is accepted.
func TestExampleFileLoads(t *testing.T) {
	t.Parallel()
	got := run(t, nil, "config", "--example")
	got.want(t, exitOK)
	if rows := told(
		t, nil, "--config="+written(t, "example.yaml", got.stdout),
	); rows["queue"].From != options.FromDefault {
		t.Errorf("the example itself says something: %+v", rows)
	}
	// Comments have a space behind the #, options none, what belongs to them two.
	all := regexp.MustCompile(`(?m)^#([a-z]|  )`).ReplaceAllString(got.stdout, "$1")
	rows := told(t, nil, "--config="+written(t, "all.yaml", all))
	keys := regexp.MustCompile(`(?m)^#([a-z-]+):`).FindAllStringSubmatch(got.stdout, -1)
	if len(keys) < 40 {
		t.Errorf("%d options only", len(keys))
	}
	for _, key := range keys {
		// The test itself gives that one by a flag.
		if row := rows[key[1]]; row.From != options.FromFile && key[1] != "output" {
			t.Errorf("%s is not there: %+v", key[1], row)
		}
	}
	// An option is missing if another one has the same key.
	newProgram(nil, io.Discard, io.Discard).eachFlag(func(_ *cobra.Command, flag *pflag.Flag) {
		if o, ok := options.Of(flag); ok && o.Variable != "" && o.Flag != "config" &&
			!strings.Contains(got.stdout, "[$"+o.Variable+"]") {
			t.Errorf("%s is not there", o.Variable)
		}
	})
	for line := range strings.Lines(got.stdout) {
		if len(line) > 135 {
			t.Errorf("a long line: %s", line)
		}
	}
}

func TestServeGoesByTheFile(t *testing.T) {
	t.Parallel()
	path := written(
		t, "tasktable.yaml",
		"database-url-file: "+written(t, "url", storetest.URL(t)+"\n")+
			"\nqueue: {mail: 3}\nlog-format: json\nbench-tasks: 5\n",
	)
	p := start(t, []string{"TASKTABLE_CONFIG=" + path}, "serve")
	if line := p.waitFor(`"msg":"serving"`); !strings.Contains(line, `"queues":{"mail":3}`) {
		t.Errorf("serves %s", line)
	}
	p.signal(syscall.SIGTERM)
	p.end().want(t, exitOK)
}
