package cmd

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fakeGo fails each test of the first group, and writes its arguments to a file.
const fakeGo = `#!/bin/sh
echo "$@" >>"$GO_CALLS"
case "$1" in
list) echo ./one; echo ./two ;;
test)
	case "$*" in *"./scheduled/internal/..."*)
		echo "--- FAIL: TestOne (0.01s)"; echo "FAIL	example.org/one	0.1s"; exit 1 ;;
	*) echo "ok  	example.org/two	0.1s" ;;
	esac ;;
esac
`

// A newcomer whose machine is busy has one failure, and wants to know whether the other packages pass.
func TestMakeTestRunsAllGroups(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("no make")
	}
	dir := t.TempDir()
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	writePrograms(t, dir, map[string]string{"Makefile": string(makefile), "bin/go": fakeGo, "bin/gofmt": "#!/bin/sh\n"})
	calls := filepath.Join(dir, "calls")
	cmd := exec.CommandContext(t.Context(), "make", "test", "AXE=Makefile", "RACE=")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "GO_CALLS="+calls,
		"MAKEFLAGS=", "MAKELEVEL=")
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Errorf("make test passes though a group has failed:\n%s", out)
	}
	asked, err := os.ReadFile(calls)
	if err != nil {
		t.Fatal(err)
	}
	if groups := strings.Count("\n"+string(asked), "\ntest "); groups != 6 {
		t.Errorf("%d groups of tests ran, want 6:\n%s", groups, asked)
	}
	_, end, found := strings.Cut(string(out), "\nFAILED:\n")
	if !found || !strings.Contains(end, "TestOne") || !strings.Contains(end, "example.org/one") {
		t.Errorf("the end does not say which package has failed:\n%s", out)
	}
}

// writePrograms writes files that can be run.
func writePrograms(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// Continuous integration installs a Postgres if the machine has none, also beside Docker, because Docker alone is not
// enough for the tests.
func TestContinuousIntegrationFindsAPostgres(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	script, err := os.ReadFile("../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	const (
		fake     = "#!/bin/sh\necho \"ran ${0##*/} $*\"\n"
		user     = "#!/bin/sh\necho \"${FAKE_USER:-0}\"\n"
		folder   = "#!/bin/sh\necho \"${1%/*}\"\n"
		installs = "ran apt-get install -y -q --no-install-recommends postgresql\n"
		tests    = "ci: make test\nran make test\nci: make lint\nran make lint\n"
	)
	for name, c := range map[string]struct {
		file, variable string
		installs       bool
	}{
		"nothing":             {installs: true},
		"docker":              {file: "bin/docker", installs: true},
		"Debian's":            {file: "usr/lib/postgresql/17/bin/postgres"},
		"Red Hat's":           {file: "usr/pgsql-17/bin/postgres"},
		"one in PATH":         {file: "bin/postgres"},
		"a server":            {variable: "TASKTABLE_TEST_DATABASE_URL=postgres://h/x"},
		"not the root's user": {variable: "FAKE_USER=1000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			files := map[string]string{".ci/run": string(script), "bin/id": user, "bin/make": fake, "bin/apt-get": fake,
				"bin/pgbouncer": fake, "bin/chromium": fake, "bin/dirname": folder}
			if c.file != "" {
				files[c.file] = fake
			}
			writePrograms(t, dir, files)
			cmd := exec.CommandContext(t.Context(), bash, filepath.Join(dir, ".ci/run"))
			cmd.Env = []string{"PATH=" + filepath.Join(dir, "bin"), "CI_ROOT=" + dir, c.variable}
			out, err := cmd.CombinedOutput()
			if text := string(out); err != nil || strings.Contains(text, installs) != c.installs ||
				!strings.HasSuffix(text, tests) {
				t.Errorf("%v\n%s", err, text)
			}
		})
	}
}
