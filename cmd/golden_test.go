package cmd

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"
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
	p := &program{environment: append([]string{"TASKTABLE_TIME_ZONE=UTC", "TASKTABLE_SERVICE=tests"}, variables...),
		stdout: &stdout, stderr: &stderr, now: fixedNow}
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	code := p.run(ctx, args)
	return result{code, stdout.String(), stderr.String()}
}
