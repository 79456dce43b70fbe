package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// day24 are the figures of a day.
func day24() string {
	var figures strings.Builder
	for hour := range 24 {
		fmt.Fprintf(&figures, `, "hour_%02[1]d_per_s": 900, "hour_%02[1]d_p50_ms": 1.5, "hour_%02[1]d_p99_ms": 4`, hour)
	}
	return figures.String()
}

func TestRun(t *testing.T) {
	t.Parallel()
	lines := []string{
		`{"bench": "drain", "tasks_per_s": 20000, "river_per_s": 17000, "floor_per_s": 22000}`,
		`{"bench": "precise", "p50_ms": 0.5, "p99_ms": 2.5, "river_p50_ms": 2500, "river_p99_ms": 4900}`,
		`{"bench": "ramp"` + day24() + `}`,
		`{"bench": "scale", "rows": 11000, "peek_ms": 0.5, "pass_ms": 6}`,
		`{"bench": "scale", "rows": 11000000, "peek_ms": 0.4, "pass_ms": 5}`,
	}
	folder := t.TempDir()
	if err := run(strings.NewReader(strings.Join(lines, "\n")), folder); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"throughput": "River alone: 17000", "delay": "River, half: 2500 ms", "day": "up to 900 tasks a second",
		"table": "a pass that claims 100 tasks",
	} {
		for _, colors := range []string{"light", "dark"} {
			svg, err := os.ReadFile(filepath.Join(folder, name+"-"+colors+".svg"))
			if err != nil || !strings.Contains(string(svg), text) {
				t.Errorf("%s in %s colors: no %q, %v", name, colors, text, err)
			}
		}
	}
	for i := range lines[:4] {
		some := append(append([]string{}, lines[:i]...), lines[i+1:4]...)
		if err := run(strings.NewReader(strings.Join(some, "\n")), t.TempDir()); err == nil {
			t.Errorf("without the line %d there is no error", i)
		}
	}
	if err := run(strings.NewReader("{"), t.TempDir()); err == nil {
		t.Error("half an object is drawn")
	}
}
