package cmd

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/cmd/internal/options"
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

// A flag wins over a variable, and that over the default. An empty one counts as not given.
func TestConfigTellsTheOrigin(t *testing.T) {
	t.Parallel()
	const name = "TASKTABLE_POLL_INTERVAL"
	for _, test := range []struct {
		variables string
		args      string
		want      options.Setting
	}{
		{"", "", options.Setting{Value: "1m0s", From: options.FromDefault}},
		{name + "=3s", "", options.Setting{Value: "3s", From: options.FromEnvironment, Place: name}},
		{name + "=2s " + name + "=3s", "", options.Setting{Value: "3s", From: options.FromEnvironment, Place: name}},
		{name + "=", "", options.Setting{Value: "1m0s", From: options.FromDefault}},
		{"", "--poll-interval 4s", options.Setting{Value: "4s", From: options.FromFlag}},
		{name + "=3s", "--poll-interval=4s", options.Setting{Value: "4s", From: options.FromFlag}},
		{name + "=soon", "--poll-interval=4s", options.Setting{Value: "4s", From: options.FromFlag}},
		{"", "--poll-interval=3s --poll-interval=5s", options.Setting{Value: "5s", From: options.FromFlag}},
		{name + "=3s", "--poll-interval=", options.Setting{Value: "1m0s", From: options.FromDefault}},
	} {
		test.want.Option = "poll-interval"
		got := told(t, strings.Fields(test.variables), strings.Fields(test.args)...)["poll-interval"]
		if got != test.want {
			t.Errorf("%s %s: got %+v, want %+v", test.variables, test.args, got, test.want)
		}
	}
}

func TestConfigHidesSecrets(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ variable, option, want string }{
		{"DATABASE_URL=postgres://u:p%40s@db.example.org/app?sslpassword=geheim", "database-url",
			"postgres://u:xxxxx@db.example.org:5432/app"},
		{"DATABASE_URL=host=db.example.org user=u dbname=app", "database-url", "postgres://u@db.example.org:5432/app"},
		{"DATABASE_URL=postgres://u:p@a:1,b:2/app", "database-url", "postgres://u:xxxxx@a:1,b:2/app"},
		{"TASKTABLE_SMTP_PASSWORD=geheim", "smtp-password", "xxxxx"},
		{"TASKTABLE_WEBHOOK_SECRETS=orders=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "webhook-secret", "xxxxx"},
		{"TASKTABLE_SERVICE=a:b@c", "service", "xxxxx"},
		{"TASKTABLE_RECONCILE_TIMEOUT=2m", "reconcile-timeout", "2m"}, // of another command
	} {
		if got := told(t, []string{test.variable})[test.option]; got.Value != test.want {
			t.Errorf("%s: got %+v, want %s", test.variable, got, test.want)
		}
	}
}

// Somebody who may write to a file of settings would decide what the process does.
func TestFilesThatEverybodyMayWriteAreRefused(t *testing.T) {
	t.Parallel()
	open := written(t, "open", "a\n")
	if err := os.Chmod(open, 0o666); err != nil {
		t.Fatal(err)
	}
	const rule = "must not be writable by everybody, but has mode 0666"
	run(t, nil, "serve", "--commands="+open).want(t, exitUsage, "--commands (TASKTABLE_COMMANDS): "+open+": "+rule)
	run(t, []string{"TASKTABLE_SMTP_PASSWORD_FILE=" + open}, "config").want(t, exitUsage,
		"TASKTABLE_SMTP_PASSWORD_FILE: the file "+open+": "+rule)
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
	for _, option := range []string{"reconcile-examples", "prove-tasks"} {
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
