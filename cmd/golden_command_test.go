package cmd

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"testing"
)

// goldenCommand is a command line, whose output as a table and as JSON is in testdata.
type goldenCommand struct {
	name string // of its files
	code int
	args []string
}

// goldenCommands runs each on a database of its own, where it always is fixedNow. What no test can fix, tidy takes out.
func goldenCommands(t *testing.T, folder string, database func(*testing.T) []string, tidy func(string) string,
	commands []goldenCommand) {
	t.Helper()
	for _, c := range commands {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, format := range []string{"table", "json"} {
				got := runFixed(t, database(t), append(c.args, "--output="+format)...)
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

// replaced takes out what a pattern finds, whatever that is today.
func replaced(pattern, by string) func(string) string {
	expression := regexp.MustCompile(pattern)
	return func(text string) string { return expression.ReplaceAllString(text, by) }
}
