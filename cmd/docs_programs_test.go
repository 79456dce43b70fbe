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
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
)

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

// asProgramRuns makes this process the program itself. A process of its own would take the time of a start twice.
func asProgramRuns(args []string) int {
	os.Args = append(os.Args[:1], args...)
	return Execute()
}

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
	command, _, err := newProgram(nil, io.Discard, io.Discard).rootCommand().Find(args)
	if err == nil && command.Flags().Lookup("yes") != nil {
		args = append(slices.Clone(args), "--yes")
	}
	return asProgramRuns(args)
}

// withRecipients makes the recipients that the examples of notices name, unless they exist.
func withRecipients(args []string) int {
	for _, made := range [][]string{
		{"notices", "recipients", "set", "ann", "--email=ann@example.org"},
		{"notices", "recipients", "set", "ops", "--target=ops"}, {"notices", "set", "dead", "--event=failed", "--to=ops"},
	} {
		cmd := programCommand(made)
		cmd.Stdout, cmd.Stderr = nil, nil
		_ = cmd.Run()
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
	case len(args) == 2 && args[0] == "run": // a program with a test of its own
		return problem(fileProblem(filepath.Join(repository, args[1], "main_test.go")))
	case len(args) > 1 && args[0] == "test":
		return problem(goTestProblem(args[1:]))
	case len(args) == 2 && (args[0] == "get" || args[0] == "install") &&
		strings.HasPrefix(args[1], "github.com/tasktable/tasktable"):
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
	url, sql, prints := os.Getenv("DATABASE_URL"), []string{}, false
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
		case "-At":
			prints = true
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
	return runSQL(url, sql, prints)
}

// documentedDump runs the system's own program, where there is one for this server.
func documentedDump(name string, args []string) int {
	if err := os.Setenv("PATH", os.Getenv(docsPath)); err != nil {
		return problem(err.Error())
	}
	program, err := exec.LookPath(name)
	if err != nil {
		return 0
	}
	output, err := exec.Command(program, args...).CombinedOutput()
	if bytes.Contains(output, []byte("server version mismatch")) {
		return 0
	}
	fmt.Fprintf(os.Stderr, "%s", output)
	return ended(err)
}

func runSQL(url string, statements []string, prints bool) int {
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
			answers, err := conn.PgConn().Exec(ctx, statement).ReadAll()
			if err != nil {
				return problem(err.Error() + ": " + statement)
			}
			for _, answer := range answers {
				for _, row := range answer.Rows {
					if prints {
						fmt.Printf("%s\n", bytes.Join(row, []byte("|")))
					}
				}
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
