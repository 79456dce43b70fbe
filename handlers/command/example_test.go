//go:build unix

package command_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/command"
	"github.com/tasktable/tasktable/handlers/command/contract"
	"github.com/tasktable/tasktable/scheduled/scheduledtest"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

// A task runs a command of the configuration with an argument of its own. In a test t is its own.
func ExampleVariant() {
	ctx := context.Background()
	t, end := storetest.Example()
	defer end()
	tx, err := storetest.Pool(t).Begin(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = tx.Rollback(ctx) }()
	commands, err := command.Variant(command.Config{Commands: map[string]command.Command{
		"greet": {Path: "/bin/echo", Args: []string{"Hello"}, ExtraArgs: command.ExtraArgs{Max: 1, Pattern: "[A-Z][a-z]+"}},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	registry, err := handlers.NewRegistry(commands)
	fmt.Println(registry.Types(), err)

	at := time.Date(2035, 5, 1, 9, 0, 0, 0, time.UTC)
	for _, name := range []string{"Ann", "$(id)"} {
		payload := contract.Exec{Command: "greet", Args: []string{name}}
		if _, err := tasks.Schedule(ctx, tx, store.Task{Payload: payload, At: at}); err != nil {
			fmt.Println(err)
		}
		ran := scheduledtest.New(t, tx, registry).RunDueAt(ctx, at)
		fmt.Println(ran[0].Outcome, ran[0].Err)
	}
	// Output:
	// [EXEC EXEC:greet] <nil>
	// COMPLETED <nil>
	// FAILED command greet: payload field args must match the pattern of the node's configuration: number 1 does not
}
