package store_test

import (
	"strings"
	"testing"

	"github.com/tasktable/tasktable/store"
)

// An application's trigger may leave a write out. A verb must not answer as if it had written.
func TestVerbsWhereATriggerLeavesTheWriteOut(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Schedule(base("waits"))
	b.Make("dead", "FAILED")
	b.Make("paused", "PAUSED")
	b.Make("runs", "EXECUTING")
	b.Exec(b.Pool, `CREATE FUNCTION left_out() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$`)
	b.Exec(b.Pool, `CREATE TRIGGER left_out BEFORE UPDATE OR DELETE ON tasktable.scheduled_tasks
		FOR EACH ROW EXECUTE FUNCTION left_out()`)
	edited := base("waits")
	edited.Priority = 7
	for name, call := range map[string]func() (store.Receipt, error){
		"Schedule":   func() (store.Receipt, error) { return b.Tasks.Schedule(b.Ctx, b.Pool, edited) },
		"Reschedule": func() (store.Receipt, error) { return b.Tasks.Reschedule(b.Ctx, b.Pool, "waits", far(5)) },
		"Cancel":     func() (store.Receipt, error) { return b.Tasks.Cancel(b.Ctx, b.Pool, "waits") },
		"Pause":      func() (store.Receipt, error) { return b.Tasks.Pause(b.Ctx, b.Pool, "waits") },
		"Resume":     func() (store.Receipt, error) { return b.Tasks.Resume(b.Ctx, b.Pool, "paused") },
		"RunNow":     func() (store.Receipt, error) { return b.Tasks.RunNow(b.Ctx, b.Pool, "waits") },
		"RunsAgain":  func() (store.Receipt, error) { return b.Tasks.RunNow(b.Ctx, b.Pool, "runs") },
		"Retry":      func() (store.Receipt, error) { return b.Tasks.Retry(b.Ctx, b.Pool, "dead") },
		"Archive":    func() (store.Receipt, error) { return b.Tasks.Archive(b.Ctx, b.Pool, "dead", "done") },
		"Delete":     func() (store.Receipt, error) { return b.Tasks.Delete(b.Ctx, b.Pool, "dead") },
	} {
		if receipt, err := call(); err == nil || !strings.Contains(err.Error(), "was not written") {
			t.Errorf("%s: %+v, %v", name, receipt, err)
		}
	}
	if receipt, err := b.Tasks.Resume(b.Ctx, b.Pool, "waits"); err != nil || receipt.Outcome != store.Unchanged {
		t.Errorf("a verb without a write: %+v, %v", receipt, err)
	}
}

// send-email with the key welcome-42 has the id of send-email-welcome with the key 42.
func TestAnIDThatIsMadeOfAKeyKeepsItsType(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := "task-send-email-welcome-42"
	made := b.Schedule(store.Task{ID: id, Payload: typed("send-email"), At: far(0)})
	for name, schedule := range b.scheduling(store.Task{ID: id, Payload: typed("send-email-welcome"), At: far(0)}) {
		if err := schedule(b.Ctx); err == nil || !strings.Contains(err.Error(), "would also be that of type") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if row := b.Get(id); row.Type != "send-email" || row.Revision != made.Revision {
		t.Errorf("got %s", pretty(row))
	}
	b.Schedule(store.Task{ID: "mine", Payload: typed("send-email"), At: far(0)})
	b.Schedule(store.Task{ID: "mine", Payload: typed("send-email-welcome"), At: far(0)})
}
