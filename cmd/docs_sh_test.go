//go:build unix

package cmd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/store/storetest"
)

// The blocks of sh are run by a shell that knows no programs but these; each is this test binary under another name.
// To run a block with another program, add it here. How the program tasktable itself is run, its command says below.
var documentedPrograms = map[string]func(args []string) int{
	"tasktable":  documentedTasktable,
	"go":         documentedGo,
	"make":       func(args []string) int { return problem(makeProblem(args)) },
	"psql":       documentedPsql,
	"pg_dump":    func(args []string) int { return documentedDump("pg_dump", args) },
	"pg_restore": func(args []string) int { return documentedDump("pg_restore", args) },
	"jq":         documentedJq,
	"promtool":   func(args []string) int { return problem(fileProblem(args[len(args)-1])) },
	"kubectl":    func([]string) int { return 0 },
	"cat":        nil, // the system's own
}

// documentedCommands says how a command of the program is run, by the longest beginning; nil: as it stands, and it
// has to succeed.
var documentedCommands = map[string]func(args []string) int{
	"":      nil,
	"serve": untilServing,
	// it compares, and there is something to mend
	"reconcile": func(args []string) int { return orElse(exitDrift, asProgramRuns(args)) },
	"doctor":    func(args []string) int { return orElse(exitUnhealthy, asProgramRuns(args)) }, // no node runs
	"tasks":     confirmed,
	"dead":      confirmed,
	"health":    func(args []string) int { return orElse(exitFailed, asProgramRuns(args)) }, // no node runs
	// there is no such calendar, and no such key
	"calendars show": func(args []string) int { return orElse(exitFailed, asProgramRuns(args)) },
	"keys revoke":    func(args []string) int { return orElse(exitFailed, asProgramRuns(args)) },
	"notices":        withRecipients,
	"notices test":   seen, // it waits for a node
	"demo":           seen, // these take their time; tests of their own run them
	"prove":          seen,
}

// inDocs is set for the programs above: the top of the source tree. docsPath is where the system has its own.
const (
	inDocs   = "CMD_TEST_IS_IN_DOCS"
	docsPath = "CMD_TEST_PATH"
)

// A program that the shell has called is no run of the tests.
func init() {
	if os.Getenv(inDocs) != "" && os.Getenv(asProgram) == "" {
		if run := documentedPrograms[filepath.Base(os.Args[0])]; run != nil {
			repository = os.Getenv(inDocs)
			os.Exit(run(os.Args[1:]))
		}
	}
}

func TestShellBlocks(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	programs := t.TempDir()
	for name, run := range documentedPrograms {
		target := self
		if run == nil {
			if target, err = exec.LookPath(name); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink(target, filepath.Join(programs, name)); err != nil {
			t.Fatal(err)
		}
	}
	shell, arguments := "/bin/sh", []string{"-eu", "-c"}
	bash, err := exec.LookPath("bash")
	if err == nil {
		shell, arguments = bash, []string{"-e", "-o", "pipefail", "-c"}
	}
	admin, err := pgxpool.New(t.Context(), storetest.EmptyURL(t)) // it outlives the databases of the blocks
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(admin.Close)
	for _, b := range allBlocks(t, "sh") {
		t.Run(b.where, func(t *testing.T) {
			if strings.Contains(b.text, "<(") && bash == "" {
				t.Skip("needs bash in PATH")
			}
			t.Parallel()
			// Before the database, in which they have rights, because they are dropped after it.
			roles := documentedRoles(t, admin)
			url := documentedDatabase(t)
			ctx, cancel := context.WithTimeout(t.Context(), 2*waitLimit)
			defer cancel()
			script := systemFolders.ReplaceAllString(placeholders.ReplaceAllLiteralString(b.text, url), "$1")
			cmd := exec.CommandContext(ctx, shell, append(slices.Clone(arguments), script)...)
			cmd.Dir = t.TempDir()
			for name, content := range documentedFiles {
				if err := os.WriteFile(filepath.Join(cmd.Dir, name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			cmd.Env = append(roles, raceAtOnce, "PATH="+programs, "HOME="+cmd.Dir, "DATABASE_URL="+url,
				inDocs+"="+repository, docsPath+"="+os.Getenv("PATH"))
			if strings.Contains(b.text, "$NEW_DATABASE_URL") {
				cmd.Env = append(cmd.Env, "NEW_DATABASE_URL="+storetest.EmptyURL(t))
			}
			cmd.WaitDelay = time.Second
			if output, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s\nA program that is not found is to be added to documentedPrograms.\n%s", b.where,
					err, b.text, output)
			}
		})
	}
}

// documentedFiles are those that readers have by then.
var documentedFiles = map[string]string{
	"commands.yaml": "statements: {hello: {sql: SELECT 1}}\n",
	"germany.ics": "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20271003\r\nSUMMARY:Unity\r\nEND:VEVENT\r\n" +
		"END:VCALENDAR\r\n",
	"closing-days.csv": "2027-12-24,2027-12-31,closed\n",
	"reminder.json":    `{"type": "SEND_EVENT_REMINDER", "event_id": "42"}`,
	"reminders.sql": `SELECT id AS key, jsonb_build_object('event_id', id) AS payload,
		starts_at - interval '1 hour' AS scheduled_at FROM events`,
}

// placeholders stand for the reader's database.
var placeholders = regexp.MustCompile(`postgres://[^\s"']+`)

// systemFolders are where readers write to, and tests do not.
var systemFolders = regexp.MustCompile(`(> ?)/etc/\S*/`)

func fileProblem(path string) string {
	content, err := os.ReadFile(path)
	if err != nil || len(content) == 0 {
		return fmt.Sprintf("%s holds nothing: %v", path, err)
	}
	return ""
}

// documentedRoles gives the roles that the documents make names of this run's own: roles are the whole server's.
func documentedRoles(t *testing.T, admin *pgxpool.Pool) (variables []string) {
	t.Helper()
	suffix := fmt.Sprintf("tasktable_test_%016x_", rand.Uint64())
	var names []string
	for _, role := range documentedRoleNames {
		names = append(names, suffix+role)
		variables = append(variables, "TASKTABLE_"+strings.ToUpper(role)+"_ROLE="+suffix+role)
	}
	t.Cleanup(func() {
		_, err := admin.Exec(context.WithoutCancel(t.Context()), "DROP ROLE IF EXISTS "+strings.Join(names, ", "))
		if err != nil {
			t.Error(err)
		}
	})
	return variables
}

var documentedRoleNames = []string{"owner", "engine", "application", "auditor", "tenant"}
