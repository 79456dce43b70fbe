package cmd

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

var isVariable = regexp.MustCompile(`^[A-Z_]+=`)

// testdata/usage.txt is a transcript of wrong command lines and the program's answers. Each command must fail before
// it opens the database. The database is unreachable, so the exit code would then be 4. The answer must not have a
// secret of the command line.
func TestWrongUsage(t *testing.T) {
	t.Parallel()
	const transcript, secret = "usage.txt", "hunter2"
	var said strings.Builder
	lines := 0
	for line := range strings.Lines(readFile(t, "cmd/testdata/"+transcript)) {
		command, isCommand := strings.CutPrefix(line, "$ ")
		if isCommand || strings.HasPrefix(line, "#") {
			said.WriteString(line)
		}
		if !isCommand {
			continue
		}
		lines++
		variables, words := []string{"DATABASE_URL=postgres://127.0.0.1:1/x"}, shellWords(t, command)
		for ; isVariable.MatchString(words[0]); words = words[1:] {
			variables = append(variables, words[0])
		}
		got := run(t, variables, words[1:]...)
		if got.code != exitUsage || got.stdout != "" || strings.Contains(got.stderr, secret) {
			t.Errorf("%sexit code %d, stdout %q, stderr %s", line, got.code, got.stdout, got.stderr)
		}
		fmt.Fprint(&said, got.stderr)
	}
	if lines < 150 {
		t.Errorf("only %d command lines were found", lines)
	}
	golden(t, transcript, said.String())
}
