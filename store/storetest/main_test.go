package storetest

import (
	"bytes"
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// Other people's goroutines, as a connection pool keeps them, do not fail a run: only the checks that the
// caller asked for can.
func TestMainRunsTheChecksAskedFor(t *testing.T) {
	t.Parallel()
	passed := func() error { return nil }
	failed := func() error { return errors.New("something is left") }
	for name, test := range map[string]struct {
		tests  int
		checks []func() error
		code   int
		said   string
	}{
		"none":                  {0, nil, 0, ""},
		"one that passes":       {0, []func() error{passed}, 0, ""},
		"one that fails":        {0, []func() error{passed, failed, failed}, 1, "storetest: something is left\n"},
		"the tests have failed": {2, []func() error{failed}, 2, ""},
	} {
		var said bytes.Buffer
		if code := check(test.tests, &said, test.checks...); code != test.code || said.String() != test.said {
			t.Errorf("%s: code %d and %q, want %d and %q", name, code, said.String(), test.code, test.said)
		}
	}
}

// The package that applications import must not bring what only Tasktable's own tests need.
func TestStoretestNeedsNoTestcontainers(t *testing.T) {
	t.Parallel()
	listed, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	ok(t, err)
	for _, heavy := range []string{"testcontainers", "moby", "goleak", "docker"} {
		for line := range strings.Lines(string(listed)) {
			if strings.Contains(line, heavy) {
				t.Errorf("it imports %s", strings.TrimSpace(line))
			}
		}
	}
}
