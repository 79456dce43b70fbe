package logging_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/logging"
)

func ExampleVariant() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
	registry, err := handlers.NewRegistry(logging.Variant(logger))
	if err != nil {
		fmt.Println(err)
		return
	}
	// A node does this when the task is due:
	attempt := &handlers.Execution{
		ID: "smoke-1", Type: "LOG", Payload: json.RawMessage(`{"type":"LOG","message":"hi"}`), Revision: 1, Attempt: 1,
	}
	if err := registry.Variant("LOG").Run(context.Background(), attempt); err != nil {
		fmt.Println(err)
	}
	// Output: level=INFO msg=hi task_id=smoke-1 type=LOG revision=1 attempt=1
}

func withoutTime(_ []string, attr slog.Attr) slog.Attr {
	if attr.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return attr
}
