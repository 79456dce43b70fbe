//go:build unix

package command_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/command"
	"github.com/tasktable/tasktable/handlers/command/contract"
	"github.com/tasktable/tasktable/store/storetest"
	"github.com/tasktable/tasktable/store/storetest/leaks"
)

// asNode makes this test binary run one command, whose script it has, instead of the tests.
const asNode = "COMMAND_TEST_AS_NODE"

func TestMain(m *testing.M) {
	if script := os.Getenv(asNode); script != "" {
		_, err := run(context.Background(), shell(script), contract.Exec{})
		fmt.Println(err)
		return
	}
	storetest.Main(m, leaks.Check)
}

// patience is how long a test waits for an event.
const patience = time.Minute

// shell is a command whose program is a shell with a script of the configuration. What tasks add is $1 and so on.
func shell(script string) command.Command {
	return command.Command{Path: "/bin/sh", Args: []string{"-c", script, "sh"}}
}

func newRegistry(commands map[string]command.Command) (*handlers.Registry, error) {
	variant, err := command.Variant(command.Config{Commands: commands})
	if err != nil {
		return nil, err
	}
	return handlers.NewRegistry(variant)
}

// run runs the command as test.
func run(ctx context.Context, c command.Command, payload contract.Exec) (result contract.Result, err error) {
	registry, err := newRegistry(map[string]command.Command{"test": c})
	if err != nil {
		return result, err
	}
	payload.Command = "test"
	encoded, err := json.Marshal(payload)
	if err != nil {
		return result, err
	}
	e := attempt(string(encoded))
	if err := registry.Variant("EXEC").Run(ctx, e); err != nil {
		return result, err
	}
	return result, json.Unmarshal(e.Effects().Result, &result)
}

// attempt is an attempt as a node makes it, from the payload's JSON.
func attempt(payload string) *handlers.Execution {
	e := &handlers.Execution{ID: "task-7", Type: "EXEC", Payload: []byte(payload), Revision: 32, AskedRevision: 31, Attempt: 2}
	return e.WithExtend(func(context.Context, time.Duration) error { return nil })
}

func permanent(err error) bool {
	var target *handlers.PermanentError
	return errors.As(err, &target)
}

// written is a file with the text.
func written(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// waitFor waits until the condition holds.
func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline, look := time.After(patience), time.NewTicker(5*time.Millisecond)
	defer look.Stop()
	for !holds() {
		select {
		case <-look.C:
		case <-deadline:
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// read is a file's content without the newline at its end, or "" while the file is not there.
func read(path string) string {
	content, _ := os.ReadFile(path)
	text, whole := strings.CutSuffix(string(content), "\n")
	if !whole {
		return ""
	}
	return text
}
