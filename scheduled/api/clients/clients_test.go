// Package clients_test generates clients of the HTTP API as its README tells, and uses them against a running service.
// make clients installs the generators and runs it.
package clients_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// toolsVariable names the folder in which npm has installed the packages of testdata/package.json.
const toolsVariable = "TASKTABLE_TEST_CLIENTS"

// patience bounds a program. The first run of a generator is slow.
const patience = 2 * time.Minute

// guide is the part of the README that tells how to generate clients.
var guide = regexp.MustCompile(`(?s)## Clients in other languages\n(.*?)\n## `)

// workshop is a folder in which a client is generated and used.
type workshop struct {
	*testing.T

	service *service
	dir     string
}

// newWorkshop skips the test unless it is asked for and the machine has the programs.
func newWorkshop(t *testing.T, programs ...string) *workshop {
	t.Helper()
	tools := os.Getenv(toolsVariable)
	if tools == "" {
		t.Skip("generates clients with programs that other tests do not need; run make clients")
	}
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s in PATH", program)
		}
	}
	w := &workshop{T: t, service: newService(t), dir: t.TempDir()}
	if err := os.Symlink(filepath.Join(tools, "node_modules"), filepath.Join(w.dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return w
}

// run runs a program in the folder and returns its output.
func (w *workshop) run(program string, args ...string) string {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, program, args...)
	command.Dir = w.dir
	command.Env = append(os.Environ(), "TASKTABLE_URL="+w.service.url, "KEY="+key)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		w.Fatalf("%s %q: %v\n%s\n%s", program, args, err, &stdout, &stderr)
	}
	return stdout.String()
}

// write writes a file into the folder.
func (w *workshop) write(name, text string) {
	w.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
}

// readme returns the first part of the guide that the pattern finds, with the address of the service.
func (w *workshop) readme(pattern string) string {
	w.Helper()
	text := guide.FindString(readFile(w.T, "../README.md"))
	found := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if found == nil {
		w.Fatalf("the README has no %s", pattern)
	}
	return strings.ReplaceAll(found[1], "http://127.0.0.1:8080", w.service.url)
}

// generate runs the generator as the README shows it, from the packages that are installed.
func (w *workshop) generate(generator string) {
	w.Helper()
	line := strings.ReplaceAll(w.readme(`(?m)^\$ npx (`+generator+` (?:.*\\\n)*.*)$`), "\\\n", "")
	words := strings.Fields(line)
	w.run(filepath.Join("node_modules", ".bin", words[0]), words[1:]...)
}

func TestTypeScript(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "node")
	w.generate("openapi-typescript")
	w.write("readme.mts", w.readme("(?s)```ts\n(.*?)```"))
	w.write("driver.mts", readFile(t, "testdata/driver.mts"))
	w.run("node", "node_modules/typescript/bin/tsc", "--strict", "--noUncheckedIndexedAccess",
		"--exactOptionalPropertyTypes", "--target", "es2022", "--module", "nodenext", "--types", "node",
		"driver.mts", "readme.mts")
	w.use([]string{"node", "driver.mjs"}, []string{"node", "readme.mjs"})
}

func TestPython(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "java", "node", "python3")
	if err := exec.Command("python3", "-c", "import certifi, dateutil, urllib3").Run(); err != nil {
		t.Skip("needs the packages certifi, dateutil and urllib3 of Python: ", err)
	}
	w.generate("openapi-generator")
	w.write("tasktable-client/nulltype.py", "") // a package that the generated code imports and does not use
	w.write("tasktable-client/readme.py", w.readme("(?s)```python\n(.*?)```"))
	w.write("tasktable-client/driver.py", readFile(t, "testdata/driver.py"))
	w.use([]string{"python3", "tasktable-client/driver.py"}, []string{"python3", "tasktable-client/readme.py"})
}

// A new operation is missed here, too, where there is no Node and no Java to run the drivers.
func TestDriverNamesEachOperation(t *testing.T) {
	t.Parallel()
	driver := readFile(t, "testdata/driver.py")
	capital := regexp.MustCompile(`[A-Z]`)
	for _, operation := range operations(t) {
		name := strings.ToLower(capital.ReplaceAllString(operation, "_$0"))
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(driver) {
			t.Errorf("driver.py does not call %s", name)
		}
	}
}

// use runs the driver and then the program of the README, and looks at what they have done.
func (w *workshop) use(driver, readme []string) {
	w.Helper()
	w.compare(w.run(driver[0], driver[1:]...))
	w.check()
	called := w.service.calledSoFar()
	for _, operation := range operations(w.T) {
		if !called[operation] {
			w.Errorf("the driver has not called %s", operation)
		}
	}
	if printed := w.run(readme[0], readme[1:]...); printed != "created\n" {
		w.Errorf("the program of the README printed %q", printed)
	}
	w.fact("order 44", `SELECT payload #>> '{body,order}' FROM tasktable.scheduled_tasks WHERE id = 'order-44-paid'`, "44")
}

// seen is a task as the driver printed it.
type seen struct {
	ID       string         `json:"id"`
	Status   string         `json:"status"`
	Revision int64          `json:"revision"`
	Priority int            `json:"priority"`
	Payload  map[string]any `json:"payload"`
}

// compare compares the tasks that the driver printed with those in the database.
func (w *workshop) compare(printed string) {
	w.Helper()
	var got []seen
	if err := json.Unmarshal([]byte(printed), &got); err != nil {
		w.Fatalf("the driver printed %q: %v", printed, err)
	}
	rows, err := w.service.pool.Query(w.Context(), `SELECT id, status, revision, priority, payload
		FROM tasktable.scheduled_tasks ORDER BY id COLLATE "C"`)
	if err != nil {
		w.Fatal(err)
	}
	want, err := pgx.CollectRows(rows, pgx.RowToStructByName[seen])
	if err != nil {
		w.Fatal(err)
	}
	if len(want) == 0 || !reflect.DeepEqual(got, want) {
		w.Errorf("the driver saw\n%+v\nthe database has\n%+v", got, want)
	}
}

// check checks that the calls had their effects, and those that were refused or repeated had none.
func (w *workshop) check() {
	w.Helper()
	const of = ` FROM tasktable.scheduled_tasks WHERE id = `
	w.fact("the order", `SELECT status || ' ' || priority`+of+`'order/42 ü?'`, "QUEUED 9")
	w.fact("the edits of the order", `SELECT string_agg(outcome, ' ' ORDER BY revision)
		FROM tasktable.scheduled_task_changes WHERE task_id = 'order/42 ü?'`, "created rescheduled")
	w.fact("the repeated call", `SELECT string_agg(payload ->> 'note', ' ')
		FROM tasktable.scheduled_tasks WHERE entity = 'repeated'`, "one")
	w.fact("the bulk", `SELECT string_agg(id || ' ' || status, ' ' ORDER BY id)
		FROM tasktable.scheduled_tasks WHERE entity = 'bulk'`, "bulk-1 QUEUED bulk-2 COMPLETED")
	w.fact("the result", `SELECT result ->> 'note'`+of+`'runs'`, "done")
	w.fact("the dead letter", `SELECT status || ' ' || archived_note`+of+`'fails'`, "FAILED seen")
	w.fact("the attempts of the dead letter", `SELECT string_agg(outcome, ' ')
		FROM tasktable.scheduled_task_executions WHERE task_id = 'fails'`, "FAILED FAILED FAILED")
	w.fact("the recurring task", `SELECT cron || ' ' || time_zone || ' ' || overlap`+of+`'weekly'`,
		"0 9 * * MON Europe/Vienna allow")
	w.fact("the refused task", `SELECT count(*)::text`+of+`'wrong'`, "0")
}

func (w *workshop) fact(name, sql, want string) {
	w.Helper()
	var got *string
	if err := w.service.pool.QueryRow(w.Context(), sql).Scan(&got); err != nil {
		w.Errorf("%s: %v", name, err)
	} else if got == nil || *got != want {
		w.Errorf("%s: got %v, want %s", name, got, want)
	}
}
