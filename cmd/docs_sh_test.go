//go:build unix

package cmd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store/storetest"
)

// The blocks of sh are run by a shell that knows no programs but these; each is this test binary under another name. To run a block with
// another program, add it here. How the program tasktable itself is run, its command says below.
var documentedPrograms = map[string]func(args []string) int{
	"tasktable": documentedTasktable,
	"go":        documentedGo,
	"make":      func(args []string) int { return problem(makeProblem(args)) },
	"psql":      documentedPsql,
	"jq":        documentedJq,
	"promtool":  func(args []string) int { return problem(fileProblem(args[len(args)-1])) },
	"kubectl":   func([]string) int { return 0 },
	"cat":       nil, // the system's own
}

// documentedCommands says how a command of the program is run, by the longest beginning; nil: as it stands, and it has to succeed.
var documentedCommands = map[string]func(args []string) int{
	"":          nil,
	"serve":     untilServing,
	"reconcile": func(args []string) int { return orElse(exitDrift, asProgramRuns(args)) },  // it compares, and there is something to mend
	"doctor":    func(args []string) int { return orElse(exitUnwell, asProgramRuns(args)) }, // no node runs
	"tasks":     confirmed,
	"dead":      confirmed,
	"demo":      seen, // these take their time; tests of their own run them
	"prove":     seen,
	"bench":     seen,
}

// inDocs is set for the programs above: the top of the source tree.
const inDocs = "CMD_TEST_IS_IN_DOCS"

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
	for _, b := range allBlocks(t, "sh") {
		t.Run(b.where, func(t *testing.T) {
			if strings.Contains(b.text, "<(") && bash == "" {
				t.Skip("needs bash in PATH")
			}
			t.Parallel()
			roles := documentedRoles(t) // before the database, in which they have rights: they are dropped after it
			url := documentedDatabase(t)
			ctx, cancel := context.WithTimeout(t.Context(), 2*waitLimit)
			defer cancel()
			cmd := exec.CommandContext(ctx, shell, append(slices.Clone(arguments), systemFolders.ReplaceAllString(placeholders.ReplaceAllLiteralString(b.text, url), "$1"))...)
			cmd.Dir = t.TempDir()
			for name, content := range documentedFiles {
				if err := os.WriteFile(filepath.Join(cmd.Dir, name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			cmd.Env = append(roles, "PATH="+programs, "HOME="+cmd.Dir, "DATABASE_URL="+url, inDocs+"="+repository)
			cmd.WaitDelay = time.Second
			if output, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s\nA program that is not found is to be added to documentedPrograms.\n%s", b.where, err, b.text, output)
			}
		})
	}
}

// documentedFiles are those that readers have by then.
var documentedFiles = map[string]string{
	"tasktable.yaml": "queue: {default: 50}\n",
	"reminder.json":  `{"type": "SEND_EVENT_REMINDER", "event_id": "42"}`,
	"reminders.sql":  `SELECT id AS key, jsonb_build_object('event_id', id) AS payload, starts_at - interval '1 hour' AS scheduled_at FROM events`,
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
func documentedRoles(t *testing.T) (variables []string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), storetest.EmptyURL(t))
	if err != nil {
		t.Fatal(err)
	}
	suffix := fmt.Sprintf("tasktable_test_%016x_", rand.Uint64())
	t.Cleanup(func() {
		for _, role := range documentedRoleNames {
			if _, err := conn.Exec(context.WithoutCancel(t.Context()), "DROP ROLE IF EXISTS "+suffix+role); err != nil {
				t.Error(err)
			}
		}
		_ = conn.Close(context.WithoutCancel(t.Context()))
	})
	for _, role := range documentedRoleNames {
		variables = append(variables, "TASKTABLE_"+strings.ToUpper(role)+"_ROLE="+suffix+role)
	}
	return variables
}

var documentedRoleNames = []string{"owner", "engine", "application", "auditor"}

func problem(text string) int {
	if text == "" {
		return 0
	}
	fmt.Fprintln(os.Stderr, text)
	return 2
}

func orElse(allowed, code int) int {
	if code == allowed {
		return 0
	}
	return code
}

// documentedTasktable runs the program as the table above says.
func documentedTasktable(args []string) int {
	for end := len(args); end >= 0; end-- {
		if run, ok := documentedCommands[strings.Join(args[:end], " ")]; ok {
			if run == nil {
				run = asProgramRuns
			}
			return run(args)
		}
	}
	return 1
}

// programCommand is the program as a process.
func programCommand(args []string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), asProgram+"=yes")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd
}

func asProgramRuns(args []string) int { return ended(programCommand(args).Run()) }

func ended(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	return problem(err.Error())
}

// confirmed says yes where a reader would be asked.
func confirmed(args []string) int {
	command, _, err := (&program{}).rootCommand().Find(args)
	if err == nil && command.Flags().Lookup("yes") != nil {
		args = append(slices.Clone(args), "--yes")
	}
	return asProgramRuns(args)
}

// seen asks the command for its help, which finds an option that there is not.
func seen(args []string) int {
	cmd := programCommand(append(slices.Clone(args), "--help"))
	cmd.Stdout = nil
	return ended(cmd.Run())
}

// untilServing stops the node as soon as it serves.
func untilServing(args []string) int {
	cmd := programCommand(args)
	cmd.Stderr = nil
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return problem(err.Error())
	}
	if err := cmd.Start(); err != nil {
		return problem(err.Error())
	}
	served := false
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		fmt.Fprintln(os.Stderr, lines.Text())
		if strings.Contains(lines.Text(), "msg=serving ") || strings.Contains(lines.Text(), `"msg":"serving"`) {
			served = true
			_ = cmd.Process.Signal(syscall.SIGTERM)
		}
	}
	code := ended(cmd.Wait())
	if code == 0 && !served {
		return problem("it did not serve")
	}
	return code
}

// documentedGo runs `go run .` as the program, and sees that what the others name is there.
func documentedGo(args []string) int {
	switch {
	case len(args) > 1 && args[0] == "run" && args[1] == ".":
		return documentedTasktable(args[2:])
	case len(args) > 1 && args[0] == "test":
		return problem(goTestProblem(args[1:]))
	case len(args) == 2 && (args[0] == "get" || args[0] == "install") && strings.HasPrefix(args[1], "github.com/tasktable/tasktable"):
		return 0
	}
	return problem("nobody knows go " + strings.Join(args, " "))
}

var jsonKey = regexp.MustCompile(`(\w+):`)

// documentedJq sees that it is given JSON, and is asked for something; with -n it makes the object that it is given.
func documentedJq(args []string) int {
	values := 0
	if len(args) == 2 && args[0] == "-n" {
		_, err := fmt.Println(jsonKey.ReplaceAllString(args[1], `"$1":`))
		return ended(err)
	}
	for decoder := json.NewDecoder(os.Stdin); ; values++ {
		var value any
		switch err := decoder.Decode(&value); {
		case errors.Is(err, io.EOF) && values > 0 && len(args) > 0:
			return 0
		case err != nil:
			return problem(fmt.Sprintf("jq %v was given no JSON, or is asked for nothing: %v", args, err))
		}
	}
}

// documentedPsql runs SQL as psql does, with the options that the documents use.
func documentedPsql(args []string) int {
	url, sql := os.Getenv("DATABASE_URL"), []string{}
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		takes := func() (value string) {
			if len(args) > 0 {
				value, args = args[0], args[1:]
			}
			return value
		}
		switch word {
		case "-v":
			if takes() != "ON_ERROR_STOP=1" {
				return problem("psql -v " + word)
			}
		case "-X", "-q", "-1", "-At":
		case "-c":
			sql = append(sql, takes())
		case "-f":
			content, err := os.ReadFile(takes())
			if err != nil {
				return problem(err.Error())
			}
			sql = append(sql, string(content))
		default:
			if strings.HasPrefix(word, "-") {
				return problem("nobody knows psql " + word)
			}
			url = word
		}
	}
	if len(sql) == 0 {
		content, err := io.ReadAll(os.Stdin)
		if err != nil || len(bytes.TrimSpace(content)) == 0 {
			return problem(fmt.Sprintf("psql was given nothing: %v", err))
		}
		sql = append(sql, string(content))
	}
	return runSQL(url, sql)
}

func runSQL(url string, statements []string) int {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return problem(err.Error())
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, sql := range statements {
		for _, role := range documentedRoleNames {
			if own := os.Getenv("TASKTABLE_" + strings.ToUpper(role) + "_ROLE"); own != "" {
				sql = strings.ReplaceAll(sql, "tasktable_"+role, own)
			}
		}
		for _, statement := range splitSQL(sql) { // each commits by itself
			if _, err := conn.Exec(ctx, statement, pgx.QueryExecModeSimpleProtocol); err != nil {
				return problem(err.Error() + ": " + statement)
			}
		}
	}
	return 0
}

// sqlPiece is what may hide a semicolon, or is one.
var sqlPiece = regexp.MustCompile(`(?s)'(?:[^']|'')*'|"[^"]*"|--[^\n]*|/\*.*?\*/|\$\w*\$|;`)

// splitSQL splits a script where psql would.
func splitSQL(script string) (statements []string) {
	begin := 0
	for at := 0; ; {
		found := sqlPiece.FindStringIndex(script[at:])
		if found == nil {
			return append(statements, script[begin:])
		}
		piece := script[at+found[0] : at+found[1]]
		at += found[1]
		switch {
		case piece == ";":
			statements, begin = append(statements, script[begin:at]), at
		case piece[0] == '$':
			if end := strings.Index(script[at:], piece); end >= 0 {
				at += end + len(piece)
			}
		}
	}
}
