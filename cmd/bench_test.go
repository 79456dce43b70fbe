package cmd

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/store/storetest"
)

// The figures go to the standard output, as a table or as one JSON object; all else goes to the other.
func TestBench(t *testing.T) {
	t.Parallel()
	variables := []string{"DATABASE_URL=" + storetest.EmptyURL(t), "TASKTABLE_BENCH_ROUNDS=1"}
	table := run(t, variables, "bench", "drain", "-n", "200")
	table.want(t, exitOK, "verified: every task COMPLETED once")
	if !strings.Contains(table.stdout, "vs_river") || !strings.Contains(table.stdout, "tasks a second, one node") {
		t.Errorf("table:\n%s", table.stdout)
	}
	object := run(t, variables, "bench", "herd", "-n", "50", "--json")
	object.want(t, exitOK, "round 1 of 1")
	var figures map[string]any
	if err := json.Unmarshal([]byte(object.stdout), &figures); err != nil || figures["bench"] != "herd" ||
		figures["last_ms"] == nil {
		t.Errorf("%v: %s", err, object.stdout)
	}
}

// The bench recover starts this program once more, and kills it.
func TestBenchRecover(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "bench", "recover", "--tasks=10", "--json")
	cmd.Env = asProgramIn("DATABASE_URL=" + storetest.EmptyURL(t))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"seconds_leader":`) {
		t.Errorf("%v: %s", err, out)
	}
}

func TestBenchWithWrongOptions(t *testing.T) {
	run(t, nil, "bench", "drain", "-n", "0").want(t, exitUsage,
		"--tasks (TASKTABLE_BENCH_TASKS) must be a whole number")
	run(t, nil, "bench", "idle", "-n", "5").want(t, exitUsage)
	run(t, nil, "bench", "drian").want(t, exitUsage, "has no command")
}
