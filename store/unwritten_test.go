package store_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/store"
)

// An application's trigger may leave a write out. A verb must not answer as if it had written.
func TestVerbsWhereATriggerLeavesTheWriteOut(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.schedule(base("waits"))
	b.make("dead", "FAILED")
	b.make("paused", "PAUSED")
	b.make("runs", "EXECUTING")
	b.exec(b.pool, `CREATE FUNCTION left_out() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$`)
	b.exec(b.pool, `CREATE TRIGGER left_out BEFORE UPDATE OR DELETE ON tasktable.scheduled_tasks
		FOR EACH ROW EXECUTE FUNCTION left_out()`)
	edited := base("waits")
	edited.Priority = 7
	for name, call := range map[string]func() (store.Receipt, error){
		"Schedule":   func() (store.Receipt, error) { return b.tasks.Schedule(b.ctx, b.pool, edited) },
		"Reschedule": func() (store.Receipt, error) { return b.tasks.Reschedule(b.ctx, b.pool, "waits", far(5)) },
		"Cancel":     func() (store.Receipt, error) { return b.tasks.Cancel(b.ctx, b.pool, "waits") },
		"Pause":      func() (store.Receipt, error) { return b.tasks.Pause(b.ctx, b.pool, "waits") },
		"Resume":     func() (store.Receipt, error) { return b.tasks.Resume(b.ctx, b.pool, "paused") },
		"RunNow":     func() (store.Receipt, error) { return b.tasks.RunNow(b.ctx, b.pool, "waits") },
		"RunsAgain":  func() (store.Receipt, error) { return b.tasks.RunNow(b.ctx, b.pool, "runs") },
		"Retry":      func() (store.Receipt, error) { return b.tasks.Retry(b.ctx, b.pool, "dead") },
		"Archive":    func() (store.Receipt, error) { return b.tasks.Archive(b.ctx, b.pool, "dead", "done") },
		"Delete":     func() (store.Receipt, error) { return b.tasks.Delete(b.ctx, b.pool, "dead") },
	} {
		if receipt, err := call(); err == nil || !strings.Contains(err.Error(), "was not written") {
			t.Errorf("%s: %+v, %v", name, receipt, err)
		}
	}
	if receipt, err := b.tasks.Resume(b.ctx, b.pool, "waits"); err != nil || receipt.Outcome != store.Unchanged {
		t.Errorf("a verb without a write: %+v, %v", receipt, err)
	}
}

// send-email with the key welcome-42 has the id of send-email-welcome with the key 42.
func TestAnIDThatIsMadeOfAKeyKeepsItsType(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := "task-send-email-welcome-42"
	made := b.schedule(store.Task{ID: id, Payload: typed("send-email"), At: far(0)})
	for name, schedule := range b.scheduling(store.Task{ID: id, Payload: typed("send-email-welcome"), At: far(0)}) {
		if err := schedule(b.ctx); err == nil || !strings.Contains(err.Error(), "would also be that of type") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if row := b.get(id); row.Type != "send-email" || row.Revision != made.Revision {
		t.Errorf("got %s", pretty(row))
	}
	b.schedule(store.Task{ID: "mine", Payload: typed("send-email"), At: far(0)})
	b.schedule(store.Task{ID: "mine", Payload: typed("send-email-welcome"), At: far(0)})
}

func TestSyncNeedsIDs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, err := b.tasks.Sync(b.ctx, noDB(b), "event:1", store.Task{Payload: payload(1)})
	if !errors.Is(err, store.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}
