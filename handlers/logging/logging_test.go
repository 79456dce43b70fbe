package logging_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/logging"
	"github.com/tasktable/tasktable/store"
)

func run(t *testing.T, logger *slog.Logger, payload string) error {
	t.Helper()
	registry, err := handlers.NewRegistry(logging.Variant(logger))
	if err != nil {
		t.Fatal(err)
	}
	return registry.Variant("LOG").Run(context.Background(), &handlers.Execution{
		ID: "smoke-1", Type: "LOG", Payload: json.RawMessage(payload), Revision: 7, Attempt: 2,
	})
}

func TestTheMessageIsWrittenWithItsTask(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run(
		t, slog.New(slog.NewJSONHandler(&out, nil)), `{"type":"LOG","message":"hi","of another version":1}`,
	); err != nil {
		t.Fatal(err)
	}
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("%v in %q", err, out.String())
	}
	delete(line, "time")
	want := map[string]any{
		"level": "INFO", "msg": "hi", "task_id": "smoke-1", "type": "LOG", "revision": 7.0, "attempt": 2.0,
	}
	if !reflect.DeepEqual(line, want) {
		t.Errorf("got %v, want %v", line, want)
	}
}

func TestAMessageCannotForgeALine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run(
		t, slog.New(slog.NewTextHandler(&out, nil)), `{"type":"LOG","message":"hi\nlevel=ERROR msg=forged"}`,
	); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(out.String(), "\n"); lines != 1 {
		t.Errorf("%d lines: %q", lines, out.String())
	}
}

func TestAMessageThatIsNoStringIsPermanent(t *testing.T) {
	t.Parallel()
	err := run(t, slog.New(slog.DiscardHandler), `{"type":"LOG","message":{}}`)
	var permanent *handlers.PermanentError
	if !errors.As(err, &permanent) {
		t.Errorf("got %v", err)
	}
}

func TestThePayloadIsATask(t *testing.T) {
	t.Parallel()
	if err := (store.Task{Payload: logging.Log{Message: "hi"}}).Check(); err != nil {
		t.Error(err)
	}
	if id := store.IDOf(logging.Log{}); id != "" {
		t.Errorf("two messages would be one task: %s", id)
	}
}

// Not parallel: it changes the default logger of the process.
func TestTheDefaultLoggerIsTheOneOfTheMoment(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	var out bytes.Buffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	if err := run(t, nil, `{"type":"LOG","message":"hi"}`); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "msg=hi") {
		t.Errorf("got %q", out.String())
	}
}
