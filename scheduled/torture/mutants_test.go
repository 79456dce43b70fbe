//go:build unix && mutants

package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// mutant is a way to break the engine. Where a second line of defence would hide it, that is broken, too.
type mutant struct {
	name  string
	edits []edit
	by    []string // the checks of which one at least must notice
	steer steer
}

// allMutants are what is known to be able to go wrong.
func allMutants() []mutant {
	return slices.Concat(mutants, contentMutants, httpMutants, followMutants, ruleMutants, limitMutants)
}

// edit replaces a text in a file of the repository. The text must be there exactly once: a mutant that no longer means
// anything is an error.
type edit struct{ file, old, new string }

// steer is the work and the faults that bring a fault of the engine to light. The engine as it is must pass the same.
type steer struct {
	name     string
	settings settings
}

const (
	mutantSeconds = 60 // within which each is to be noticed
	buildLimit    = 5 * time.Minute
)

// TestMutants builds the engine with each of its faults, runs the torture test against it, and sees that it is noticed.
func TestMutants(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	whole := build(t, root, nil)
	passed := map[string]bool{}
	for _, m := range allMutants() {
		t.Run(strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) {
			if !passed[m.steer.name] {
				if out, err := m.steer.run(whole); err != nil {
					t.Fatalf("the engine as it is does not pass %q: %v\n%s", m.steer.name, err, last(out, 60))
				}
				passed[m.steer.name] = true
			}
			binary := build(t, root, m.edits)
			began := time.Now()
			out, err := m.steer.run(binary)
			if err == nil {
				t.Fatalf("nobody noticed; the report:\n%s", last(out, 40))
			}
			found := noticed(out)
			if !slices.ContainsFunc(m.by, func(name string) bool { return slices.Contains(found, name) }) {
				t.Fatalf("noticed by %q, want one of %q: %v\n%s", found, m.by, err, last(out, 40))
			}
			t.Logf("noticed after %s by %q", time.Since(began).Round(time.Second), found)
		})
	}
}

// TestClocks runs nodes whose clocks are wrong by an hour and more, and sees that nobody notices. The clock that lies
// is Go's own, in a standard library that is changed for this build.
func TestClocks(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	//nolint:staticcheck // where the go command of this build has it
	standard := filepath.Join(runtime.GOROOT(), "src", "time")
	binary := build(t, root, []edit{
		{filepath.Join(standard, "time.go"), "func Now() Time {\n	sec, nsec, mono := runtimeNow()\n",
			"func Now() Time {\n	sec, nsec, mono := runtimeNow()\n	sec += skew\n"},
		{filepath.Join(standard, "sys_unix.go"), "	\"syscall\"\n)\n", "	\"syscall\"\n)\n" + skewSource},
	})
	out, err := skewed.run(binary)
	if err != nil {
		t.Fatalf("%v\n%s", err, last(out, 60))
	}
	t.Log(last(out, 20))
}

// skewSource reads by how much the clock is to lie.
const skewSource = `
var skew = func() (seconds int64) {
	text, _ := syscall.Getenv("` + skewVariable + `")
	sign := int64(1)
	for _, digit := range text {
		if digit == '-' {
			sign = -1
		} else {
			seconds = 10*seconds + int64(digit-'0')
		}
	}
	return sign * seconds
}()
`

// TestMutantsApply sees that each mutant still means something, without building any: make test runs it.
func TestMutantsApply(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range allMutants() {
		if _, err := edited(root, m.edits); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

// edited is the files of the repository as the edits change them, by path.
func edited(root string, edits []edit) (texts map[string]string, err error) {
	texts = map[string]string{}
	for _, e := range edits {
		path := e.file
		if !filepath.IsAbs(path) {
			path = filepath.Join(root, path)
		}
		if _, read := texts[path]; !read {
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			texts[path] = string(text)
		}
		if n := strings.Count(texts[path], e.old); n != 1 {
			return nil, fmt.Errorf("%s has %d times, want once:\n%s", e.file, n, e.old)
		}
		texts[path] = strings.Replace(texts[path], e.old, e.new, 1)
	}
	return texts, nil
}

// build makes the test binary of this package with some files of the repository replaced.
func build(t *testing.T, root string, edits []edit) string {
	t.Helper()
	dir := t.TempDir()
	texts, err := edited(root, edits)
	if err != nil {
		t.Fatal(err)
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for path, text := range texts {
		replacement := filepath.Join(dir, fmt.Sprintf("%d-%s", len(overlay.Replace), filepath.Base(path)))
		if err := os.WriteFile(replacement, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[path] = replacement
	}
	encoded, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	overlayFile, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "torture.test")
	if err := os.WriteFile(overlayFile, encoded, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), buildLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-overlay", overlayFile, "-o", binary)
	cmd.Dir = filepath.Join(root, "scheduled", "torture")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return binary
}

// run runs the torture test of a binary as it is to be steered.
func (s steer) run(binary string) (string, error) {
	encoded, err := json.Marshal(s.settings)
	if err != nil {
		return "", err
	}
	// What is found is found before that.
	ctx, cancel := context.WithTimeout(context.Background(), (mutantSeconds+90)*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.run", "^TestTorture$", "-test.v")
	cmd.Env = append(os.Environ(), steerVariable+"="+string(encoded))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	if ctx.Err() != nil {
		err = errors.Join(err, ctx.Err())
	}
	return out.String(), err
}

// noticed lists the checks that found something.
func noticed(out string) (found []string) {
	for line := range strings.Lines(out) {
		_, after, ok := strings.Cut(line, "violation: ")
		name, _, _ := strings.Cut(after, ":")
		if ok && !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	return found
}

func last(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
