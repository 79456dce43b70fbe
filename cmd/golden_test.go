package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store/storetest"
)

var update = flag.Bool("update", false, "writes the golden files anew")

// golden compares with testdata/name, or writes it with -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

// fixedNow is what times are told by in golden files.
var fixedNow = time.Date(2026, 11, 21, 18, 0, 0, 0, time.UTC)

// runFixed is run where it always is fixedNow, in UTC, and the tests' doing.
func runFixed(t *testing.T, variables []string, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	p := newProgram(append([]string{"TASKTABLE_TIME_ZONE=UTC", "TASKTABLE_BY=tests"}, variables...), &stdout, &stderr)
	p.now = fixedNow
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	code := p.run(ctx, args)
	return result{code, stdout.String(), stderr.String()}
}

// with makes a database with rows for a test. It returns the environment that names it.
func with(rows ...string) func(*testing.T) []string {
	return func(t *testing.T) []string {
		t.Helper()
		url := storetest.URL(t)
		for _, sql := range rows {
			execute(t, url, sql)
		}
		return []string{"DATABASE_URL=" + url}
	}
}

// urlOf is the URL of the database that with has made.
func urlOf(variables []string) string { return strings.TrimPrefix(variables[0], "DATABASE_URL=") }

// asProcess runs the program as a process with something on its stdin.
func asProcess(t *testing.T, variables []string, stdin string, args ...string) result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = asProgramIn(variables...)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// shellWords are what a shell makes of a line.
func shellWords(t *testing.T, line string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-c", `printf '%s\0' `+line).Output()
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

// goldenCommand is a command line, whose output as a table and as JSON is in testdata.
type goldenCommand struct {
	name string // of its files
	code int
	args []string
}

// reads reports whether the command changes nothing.
func (c goldenCommand) reads() bool {
	return c.code == exitUsage || slices.ContainsFunc(c.args[:min(3, len(c.args))], func(word string) bool {
		return slices.Contains([]string{"list", "show", "next", "nodes", "stats", "why"}, word)
	})
}

// goldenCommands compares the output of each command with its files. Each command that changes something has a database
// of its own, and the others share one. The time is fixedNow. tidy takes out of the output the parts that differ from
// run to run.
func goldenCommands(t *testing.T, folder string, database func(*testing.T) []string, tidy func(string) string,
	commands []goldenCommand) {
	t.Helper()
	var shared []string
	if slices.ContainsFunc(commands, goldenCommand.reads) {
		shared = database(t)
	}
	for _, c := range commands {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, format := range []string{"table", "json"} {
				variables := shared
				if !c.reads() {
					variables = database(t)
				}
				got := runFixed(t, variables, append(c.args, "--output="+format)...)
				got.want(t, c.code)
				if format == "json" && got.stdout != "" && !json.Valid([]byte(got.stdout)) {
					t.Errorf("this is no JSON: %s", got.stdout)
				}
				golden(t, filepath.Join(folder, c.name+"."+format), tidy(got.stdout)+"--\n"+tidy(got.stderr))
			}
		})
	}
}

func asItIs(text string) string { return text }

// replaced returns a function that replaces each match of a pattern.
func replaced(pattern, by string) func(string) string {
	expression := regexp.MustCompile(pattern)
	return func(text string) string { return expression.ReplaceAllString(text, by) }
}
