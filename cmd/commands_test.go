//go:build unix

package cmd

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/store/storetest"
)

// Each mistake in the file is told with its field or its line, and without a value that may be secret.
func TestCommandsFileErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"commands: {a: {timeout: 30}}":         "line 1: must be a duration such as 30s, and not a number",
		"":                                     "has neither commands nor statements",
		"commands: {}":                         "has neither commands nor statements",
		"comands: {}":                          "line 1: there is no field comands",
		"- a":                                  "line 1: must not be a list",
		"commands: {a: /bin/sh}":               "line 1: must not be a text",
		"commands:\n  a:\n    pth: /bin/sh":    "line 3: there is no field pth",
		"commands:\n  a:\n    args: hunter2":   "line 3: must be a list of texts, and not a text",
		"commands:\n  a:\n    timeout: soon":   "line 3: must be a duration such as 30s, and not a text",
		"commands:\n  a:\n    output: much":    "line 3: must be a number, and not a text",
		"commands:\n  a:\n    success: {a: 1}": "line 3: must be a list of exit codes, and not a mapping",
		"commands: {a: {path: /bin/sh}, a: {path: /bin/sh}}": `line 1: mapping key "a" already defined at line 1`,
		"commands: {a: {path: sh, timeout: 30ms}}": "commands.a.path must be the whole path of a program, such as " +
			"/usr/bin/pg_dump\ncommands.a.timeout must be from 100ms",
		"commands: {A: {path: /bin/sh}}":                `commands: "A" must be a name of 1 to 64`,
		"statements: {a: {sql: SELECT @x}}":             "statements.a.params must have the type of each @name",
		"commands: {a: {}}\nstatements: {b: {sql: ''}}": "commands.a.path must be the whole path",
		"commands: {a: [":                               "line 1: did not find expected node content",
	} {
		got := run(t, []string{"DATABASE_URL=postgres://127.0.0.1:1/x"}, "serve", "--commands", written(t, "c.yaml", text))
		got.want(t, exitUsage, "--commands (TASKTABLE_COMMANDS): /", "/c.yaml: "+strings.Split(want, "\n")[0], want)
		if strings.Contains(got.stderr, "hunter2") || strings.Contains(got.stderr, "Config:") {
			t.Errorf("%s: %s", text, got.stderr)
		}
	}
	run(t, nil, "serve", "--commands=/nowhere/c.yaml").want(t, exitUsage,
		"--commands (TASKTABLE_COMMANDS): /nowhere/c.yaml: no such file or directory")
}

// A group that may write to the file, or to a file that it names, may have the node run anything. The node says so.
func TestCommandsOfAGroup(t *testing.T) {
	t.Parallel()
	program, secret := written(t, "program", "#!/bin/sh\n"), written(t, "secret", "s3cret\n")
	file := written(t, "commands.yaml", fmt.Sprintf("commands: {a: {path: %s, secrets: {A: %s}}, b: {path: %s}}\n",
		program, secret, program))
	for _, test := range []struct {
		modes [3]os.FileMode // of the file, the program and the secret
		want  string
	}{
		{[3]os.FileMode{0o640, 0o750, 0o640}, ""},
		{[3]os.FileMode{0o660, 0o750, 0o640}, "file=" + file + " mode=0660\n"},
		{[3]os.FileMode{0o600, 0o770, 0o640}, "file=" + program + " mode=0770\n"},
		{[3]os.FileMode{0o600, 0o750, 0o660}, "file=" + secret + " mode=0660\n"},
	} {
		for i, path := range []string{file, program, secret} {
			if err := os.Chmod(path, test.modes[i]); err != nil {
				t.Fatal(err)
			}
		}
		var log bytes.Buffer
		settings := commandSettings{path: file}
		_, err := settings.variants(slog.New(slog.NewTextHandler(&log, nil)))
		warned := strings.Count(log.String(), "level=WARN")
		said := strings.HasSuffix(log.String(), test.want)
		if err != nil || warned > 1 || (warned == 1) != (test.want != "") || !said {
			t.Errorf("%#o: %v\n%swant %s", test.modes, err, log.String(), test.want)
		}
	}
}

// isCommandsFile tells the blocks of yaml that --commands takes from those of options.
var isCommandsFile = regexp.MustCompile(`(?m)^(commands|statements):$`)

var (
	programPath = regexp.MustCompile(`\bpath: (/\S+)`)
	folderPath  = regexp.MustCompile(`\bdirectory: /\S+`)
	secretPath  = regexp.MustCompile(`/(?:etc/tasktable|run/secrets)/[a-z-]+`)
)

// onThisMachine replaces the programs of a file by ones that print their arguments.
func onThisMachine(t *testing.T, text string) string {
	t.Helper()
	folder := t.TempDir()
	text = programPath.ReplaceAllStringFunc(text, func(found string) string {
		path := filepath.Join(folder, filepath.Base(programPath.FindStringSubmatch(found)[1]))
		program := "#!/bin/sh\nprintf '<%s>' \"$@\"\nprintf ' %s %s' \"$PATH\" \"$PGPASSWORD\"\n"
		if err := os.WriteFile(path, []byte(program), 0o700); err != nil {
			t.Fatal(err)
		}
		return "path: " + path
	})
	text = folderPath.ReplaceAllLiteralString(text, "directory: "+folder)
	return secretPath.ReplaceAllLiteralString(text, written(t, "secret", "pgpAssw0rd\n"))
}

// Each file of the documents is one that a node takes.
func TestCommandsFileBlocks(t *testing.T) {
	t.Parallel()
	files := 0
	for _, b := range allBlocks(t, "yaml") {
		if !isCommandsFile.MatchString(b.text) {
			continue
		}
		files++
		settings := commandSettings{path: written(t, "commands.yaml", onThisMachine(t, b.text))}
		if parts, err := settings.variants(slog.New(slog.DiscardHandler)); err != nil || len(parts) != 2 {
			t.Errorf("%s: %v", b.where, err)
		}
	}
	if files < 2 {
		t.Errorf("only %d files were found", files)
	}
}

// The page moves its ten lines: its file, its script, and a run of each.
func TestFromCrontab(t *testing.T) {
	t.Parallel()
	const page = "scheduled/CRONTAB.md"
	shop := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(shop.Close)
	shop.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/health" {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	lines, file, script := "", "", ""
	for _, b := range markdownBlocks(t) {
		switch {
		case !strings.HasPrefix(b.where, page):
		case b.language == "text":
			lines = b.text
		case isCommandsFile.MatchString(b.text):
			file = b.text
		case strings.Contains(b.text, "recur()"):
			script = strings.ReplaceAll(b.text, "https://shop.example.org", shop.URL)
		}
	}
	url := storetest.URL(t)
	execute(t, url, `CREATE TABLE public.sessions (seen_at timestamptz);
		INSERT INTO public.sessions VALUES (now()), (now() - interval '29 days'), (now() - interval '31 days');
		CREATE MATERIALIZED VIEW public.sales_by_day AS SELECT 1 AS day;
		CREATE UNIQUE INDEX ON public.sales_by_day (day)`)
	p := start(t, []string{"DATABASE_URL=" + url}, "serve", "--webhook-allow=127.0.0.1",
		"--commands="+written(t, "commands.yaml", onThisMachine(t, file)))
	p.waitFor("msg=serving")

	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	programs := t.TempDir()
	if err := os.Symlink(self, filepath.Join(programs, "tasktable")); err != nil {
		t.Fatal(err)
	}
	for range 2 { // "It may run again and again"
		shell := exec.CommandContext(t.Context(), "/bin/sh", "-eu", "-c", script)
		shell.Env = []string{"PATH=" + programs, "HOME=" + t.TempDir(), "DATABASE_URL=" + url, inDocs + "=" + repository,
			raceAtOnce}
		if output, err := shell.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
	}
	ids := regexp.MustCompile(`(?m)^recur ([a-z-]+) +"([^"]+)"`).FindAllStringSubmatch(script, -1)
	if len(ids) != 10 {
		t.Fatalf("%d tasks", len(ids))
	}
	for i, id := range ids {
		if old := strings.Split(strings.TrimSpace(lines), "\n")[2+i]; !strings.HasPrefix(old, id[2]) {
			t.Errorf("%s fires at %q, and the line is %s", id[1], id[2], old)
		}
		run(t, []string{"DATABASE_URL=" + url}, "tasks", "run-now", id[1]).want(t, exitOK)
	}
	const path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	for id, want := range map[string]string{
		"backup":       "<--format=custom><--file=/var/backups/shop.dump><shop> " + path + " [PGPASSWORD]",
		"vacuum":       "<--analyze><--quiet><shop> " + path + " [PGPASSWORD]",
		"certbot":      "<renew><--quiet><--deploy-hook><systemctl reload nginx> " + path + " ",
		"sync-uploads": "<-a><--delete></srv/shop/uploads/><backup.example.org:uploads/> /usr/bin:/bin ",
		"logrotate":    "<--state></var/lib/shop/logrotate.status></etc/logrotate.d/shop> " + path + " ",
		"artisan":      "<artisan><schedule:run> " + path + " ",
		"report":       "<-euc></srv/shop/bin/report --yesterday | mail -s Sales boss@example.org> " + path + " ",
	} {
		// One that its own fire made has the same result.
		ask(t, url, `SELECT result ->> 'stdout' FROM tasktable.scheduled_tasks WHERE parent_id = '`+id+`'
			AND status = 'COMPLETED' LIMIT 1`, want)
	}
	for id, want := range map[string]string{"refresh-sales": `{"rows": 0}`, "health": ""} {
		ask(t, url, `SELECT coalesce(nullif('`+want+`', ''), result::text) = result::text FROM tasktable.scheduled_tasks
			WHERE parent_id = '`+id+`' AND status = 'COMPLETED' LIMIT 1`, "true")
	}
	ask(t, url, `SELECT sum((result ->> 'rows')::int)::text FROM tasktable.scheduled_tasks
		WHERE parent_id = 'old-sessions' AND status = 'COMPLETED'`, "1")
	ask(t, url, `SELECT count(*)::text FROM tasktable.scheduled_task_changes WHERE verb = 'schedule'`, "10")
	ask(t, url, `SELECT count(*)::text FROM tasktable.scheduled_tasks WHERE status = 'FAILED'`, "0")
	p.stop()
}

func TestCheckPayload(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ kind, payload, want string }{
		{"EXEC", `{"type": "EXEC"}`, "payload field command"},
		{"EXEC:backup", `{"type": "EXEC:backup", "arg": []}`, `payload field "arg" is not known`},
		{"EXEC:backup", `{"type": "EXEC:backup"}`, ""},
		{"EXECUTE", `{"type": "EXECUTE"}`, ""},
		{"RUN_SQL", `{"type": "RUN_SQL"}`, "payload field statement"},
		{"RUN_SQL:a", `{"type": "RUN_SQL:a"}`, ""},
		{"HTTP_REQUEST", `{"type": "HTTP_REQUEST"}`, "payload field url"},
		{"HTTP_REQUEST:mine", `{"type": "HTTP_REQUEST:mine"}`, ""},
	} {
		if err := checkPayload(test.kind, []byte(test.payload)); (err == nil) != (test.want == "") ||
			err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.payload, err, test.want)
		}
	}
}
