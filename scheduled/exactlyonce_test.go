//go:build unix

package scheduled

import (
	"fmt"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
)

// slowCommitSQL makes the commit of some tasks wait for a gate: the trigger runs within COMMIT.
const slowCommitSQL = `
CREATE FUNCTION slow_commit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(1);
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER slow_commit AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.task_id LIKE '%slow%') EXECUTE FUNCTION slow_commit()`

// TestEffectsHappenOnceAcrossAKill kills a process that has handlers' transactions open, before their
// commit and within it.
func TestEffectsHappenOnceAcrossAKill(t *testing.T) {
	f := newField(t)
	f.exec(slowCommitSQL)
	letCommit, letReturn := f.shut(1), f.shut(openGate)
	first := f.start(nil)
	slow := []store.Task{
		{Payload: effectTx{"slow"}}, {Payload: effectSQL{"slow"}}, {Payload: effectTx{"open"}},
		{Payload: effectSQL{"open"}},
	}
	if _, err := enginetest.Tasks.ScheduleMany(t.Context(), f.pool, slow); err != nil {
		t.Fatal(err)
	}
	f.until(patience, "two tasks are within their commit and two before it", `SELECT count(*) = 4 FROM pg_locks
		WHERE locktype = 'advisory' AND objsubid = 1 AND NOT granted AND database = (SELECT oid FROM pg_database
			WHERE datname = current_database())`)
	second := f.start(nil)
	const n = 600
	var list []store.Task
	for i := range n {
		list = append(list, store.Task{Payload: effectTx{fmt.Sprint(i)}}, store.Task{Payload: effectSQL{fmt.Sprint(i)}})
	}
	if _, err := enginetest.Tasks.ScheduleMany(t.Context(), f.pool, list); err != nil {
		t.Fatal(err)
	}
	f.until(patience, "the first has done some", `SELECT count(DISTINCT split_part(task_id, '-', 2)) = 2
		AND count(*) >= 100 FROM effects WHERE pid = $1`, first.pid)
	first.kill()
	f.until(patience, "the open ones are taken back", `SELECT count(*) = 2
		FROM tasktable.scheduled_task_executions WHERE task_id LIKE '%open' AND outcome = 'LOST'`)
	letReturn() // also to the killed process's transactions, which end without an effect
	f.until(60*time.Second, "all but the slow are completed", completedSQL, 2*n+2)
	done := f.count(`SELECT count(*) FROM effects WHERE pid = $1`, first.pid)
	t.Logf("%d effects of the killed process, %d of the other; %d attempts lost", done,
		f.count(`SELECT count(*) FROM effects WHERE pid = $1`, second.pid),
		f.count(`SELECT count(*) FROM tasktable.scheduled_task_executions WHERE outcome = 'LOST'`))
	if done >= 2*n {
		t.Error("it was killed too late to show anything")
	}
	f.never("a task whose commit is under way was taken back", `SELECT count(*) FROM tasktable.scheduled_task_executions
		WHERE task_id LIKE '%slow'`)

	letCommit() // the server completes the commits, though nobody waits for them any more
	f.until(patience, "the slow are completed", completedSQL, 2*n+4)
	f.never("a slow task has another history than COMPLETED", `SELECT count(*) FROM tasktable.scheduled_task_executions
		WHERE task_id LIKE '%slow' AND outcome <> 'COMPLETED'`)
	f.never("a completed revision has not exactly one effect", `SELECT count(*) FROM (SELECT e.task_id, e.revision
		FROM tasktable.scheduled_task_executions AS e LEFT JOIN effects AS x USING (task_id, revision)
			WHERE e.outcome = 'COMPLETED'
		GROUP BY e.task_id, e.revision HAVING count(*) <> 1 OR count(x.task_id) <> 1) AS wrong`)
	if effects := f.count(`SELECT count(*) FROM effects`); effects != 2*n+4 {
		t.Errorf("%d effects of %d tasks", effects, 2*n+4)
	}
	f.until(
		patience, "the killed node is marked dead",
		`SELECT count(*) = 1 FROM tasktable.nodes WHERE dead_at IS NOT NULL`,
	)
	f.stopAndSeeNothingLeft(second)
}
