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
	for name, text := range map[string]string{"Makefile": string(makefile), "bin/go": fakeGo, "bin/gofmt": "#!/bin/sh\n"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
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
	if groups := strings.Count("\n"+string(asked), "\ntest "); groups != 4 {
		t.Errorf("%d groups of tests ran, want 4:\n%s", groups, asked)
	}
	_, end, found := strings.Cut(string(out), "\nFAILED:\n")
	if !found || !strings.Contains(end, "TestOne") || !strings.Contains(end, "example.org/one") {
		t.Errorf("the end does not say which package has failed:\n%s", out)
	}
}
