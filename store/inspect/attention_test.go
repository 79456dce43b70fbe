package inspect_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// attention returns the findings of a kind, as text.
func (b *bench) attention(kind string) (texts []string) {
	b.Helper()
	found, err := b.Inspector.Attention(b.Ctx, b.Pool)
	b.Check(err)
	for _, one := range found {
		if one.Kind == kind {
			texts = append(texts, fmt.Sprintf("%s %d%s: %s", one.Level, one.Count, map[bool]string{true: "+"}[one.More], one.Found))
		}
	}
	return texts
}

// leads makes a node that leads, works the queues and has the types.
func (b *bench) leads(queues, types string) { b.session(b.line("events", queues, types), true) }

func TestAttention(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	same(b, "an empty table", b.attention("nodes"), []string{"warning 1: no node runs: nothing is claimed"})
	b.leads(`{"default": 5, "mail": 5}`, `{TEST}`)
	found, err := b.Inspector.Attention(b.Ctx, b.Pool)
	b.Check(err)
	same(b, "a node without tasks", len(found), 0)
	for _, kind := range []string{"QUEUED", "EXECUTING", "COMPLETED", "CANCELLED", "PAUSED", "FAILED", "EXPIRED"} {
		for i := range 2 {
			b.Make(fmt.Sprint(kind, i), kind)
		}
	}
	b.must(b.Tasks.Archive(b.Ctx, b.Pool, "FAILED0", ""))
	now := b.Now()
	for i, ago := range []string{"2 hours", "3 hours", "30 seconds"} {
		task := base(fmt.Sprint("late", i))
		b.Schedule(task)
		b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET scheduled_at = $2::text::timestamptz - $3::text::interval,
			expiration = NULL WHERE id = $1`, task.ID, now.Format(time.RFC3339Nano), ago)
	}
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks
		SET lease_expires_at = $1::text::timestamptz - interval '1 hour' WHERE id = 'EXECUTING1'`,
		now.Format(time.RFC3339Nano))
	b.must(b.Tasks.PauseScope(b.Ctx, b.Pool, store.Queue("mail"), time.Time{}, "it moves"))
	b.Exec(b.Pool, `UPDATE tasktable.pauses SET paused_at = '2026-01-01Z', paused_by = 'ann'`)
	since := func(id string, at time.Time) string {
		return fmt.Sprintf(", the first (%s) since %s", id, at.UTC().Format(time.RFC3339))
	}
	at := func(id string, ago time.Duration) string { return since(id, now.Add(-ago)) }
	want := []string{
		"late warning 2 2 late tasks of type TEST in queue default" + at("late1", 3*time.Hour),
		"dead warning 1 1 FAILED dead letter" + since("FAILED1", *b.Get("FAILED1").FinishedAt),
		"dead info 2 2 EXPIRED dead letters" + since("EXPIRED0", *b.Get("EXPIRED0").FinishedAt),
		"paused info 2 2 tasks paused one by one" + since("PAUSED0", b.Get("PAUSED0").LastStatusUpdate),
		"pauses info 1 queue mail is paused since 2026-01-01T00:00:00Z by ann until somebody resumes it, and holds back " +
			"0 due tasks and 0 fires of recurring tasks: it moves",
		"stuck error 1 1 task held by claims whose lease has ended" + at("EXECUTING1", time.Hour) + ": nobody takes them back",
	}
	for driver, db := range b.Readers() {
		found, err := b.Inspector.Attention(b.Ctx, db)
		b.Check(err)
		var got []string
		for _, one := range found {
			text := fmt.Sprint(one.Kind, " ", one.Level, " ", one.Count, " ", one.Found)
			text, _, _ = strings.Cut(text, ": the newest says")
			got = append(got, text)
			if one.Do == "" || one.More {
				t.Errorf("%s: %s", driver, pretty(one))
			}
		}
		same(b, driver, got, want)
	}
}

// Late tasks that no live node works are an error, and tasks that nobody will work are told before they are late.
func TestAttentionToWorkThatNobodyDoes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.leads(`{"default": 5}`, `{TEST}`)
	for queue, kind := range map[string]string{"mail": "TEST", "default": "OTHER"} {
		b.Schedule(store.Task{ID: kind, Payload: store.JSON(`{"type": "` + kind + `"}`), Queue: queue, At: b.Now().Add(-time.Hour)})
	}
	b.Schedule(store.Task{ID: "soon", Payload: store.JSON(`{"type": "SOON"}`), At: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)})
	got := b.attention("late")
	for i, text := range got {
		head, tail, _ := strings.Cut(text, ", the first")
		_, reason, _ := strings.Cut(tail, "Z: ")
		got[i] = head + ": " + reason
	}
	slices.Sort(got)
	same(b, "late", got, []string{
		"error 1: 1 late task of type OTHER in queue default: no live node has a handler of that type for that queue",
		"error 1: 1 late task of type TEST in queue mail: no live node works that queue",
	})
	same(b, "nodes", b.attention("nodes"), []string{
		"info 1: no live node works type SOON in queue default, which has a task at 2100-01-01T00:00:00Z"})
}

func TestAttentionToNodes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	number := b.line("mail", `{}`, `{}`)
	same(b, "a silent node", b.attention("nodes"), []string{"warning 1: no node runs: nothing is claimed",
		fmt.Sprintf("info 1: node %d (mail on host-1/42) is silent", number)})
	b.session(number, false)
	alone := "warning 1: no node runs tasks, of 1 that live, because all of them may only lead"
	same(b, "a leader alone, which does not lead yet", b.attention("nodes"), []string{
		"error 1: no node leads, of 1 that live: nothing is claimed", alone})
	b.Schedule(store.Task{ID: "due", Payload: payload(1), At: b.Now().Add(-time.Hour)})
	same(b, "with a task", b.attention("nodes")[1:], []string{strings.Replace(alone, "warning", "error", 1)})
	b.Exec(b.Pool, `UPDATE tasktable.nodes SET may_lead = false WHERE number = $1`, number)
	worker := b.line("mail", `{"default": 1}`, `{TEST}`)
	b.Exec(b.Pool, `UPDATE tasktable.nodes SET may_lead = false WHERE number = $1`, worker)
	b.session(worker, false)
	same(b, "a quiet node beside a worker", b.attention("nodes"), []string{
		"error 1: no node leads, of 2 that live, and none of them may lead: nothing is claimed"})
	b.Exec(b.Pool, `UPDATE tasktable.nodes SET queues = '{}', types = '{}' WHERE number = $1`, worker)
	same(b, "two quiet nodes", b.attention("nodes"), []string{
		"error 1: no node leads, of 2 that live, all of them quiet: nothing is claimed"})
	b.Exec(b.Pool, `UPDATE tasktable.nodes SET may_lead = true WHERE number = $1`, worker)
	same(b, "a leader beside a quiet node", b.attention("nodes")[1:], []string{
		"error 1: no node runs tasks, of 2 that live, because the others are quiet, and 1 may only lead"})
	b.Exec(b.Pool, `UPDATE tasktable.nodes SET dead_at = clock_timestamp() WHERE number = $1`, worker)
	b.Exec(b.Pool, `DELETE FROM tasktable.scheduled_tasks`)
	same(b, "a quiet node", b.attention("nodes"), []string{
		"error 1: no node leads, of 1 that live, all of them quiet: nothing is claimed"})
	b.leads(`{"default": 5}`, `{TEST}`)
	b.Exec(b.Pool, `UPDATE tasktable.nodes SET hung = '{"SLOW": 3}' WHERE number = $1`, number)
	same(b, "hung handlers", b.attention("nodes"), []string{fmt.Sprintf("warning 1: 3 handlers of type SLOW on node %d "+
		"(mail on host-1/42) do not return, although their claims are over", number)})
	b.Exec(b.Pool, `UPDATE tasktable.nodes SET hung = '[]' WHERE number = $1`, number) // damaged
	same(b, "a damaged row", len(b.attention("nodes")), 0)
}

// A pause without an end becomes a warning after an hour, if something waits for it. The fires of recurring tasks wait
// for it, too.
func TestAttentionToPauses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Schedule(store.Task{ID: "due", Payload: payload(1), Queue: "mail", At: b.Now().Add(-time.Hour)})
	b.recurringSince("fires", "@hourly", 5*time.Hour)
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET next_attempt_at = now() - interval '1 hour' WHERE id = 'fires'`)
	for _, scope := range []store.Scope{store.Queue("mail"), store.Everything()} {
		b.must(b.Tasks.PauseScope(b.Ctx, b.Pool, scope, time.Time{}, ""))
	}
	b.Exec(b.Pool, `UPDATE tasktable.pauses SET paused_by = 'ann', paused_at = now() - interval '2 hours' WHERE name = 'mail'`)
	got := b.attention("pauses")
	for i := range got {
		level, _, _ := strings.Cut(got[i], " is paused since")
		_, waits, _ := strings.Cut(got[i], "resumes it")
		got[i] = level + waits
	}
	same(b, "pauses", got, []string{
		"warning 1: queue mail, and holds back 1 due task and 0 fires of recurring tasks",
		"info 1: all, and holds back 1 due task and 1 fire of recurring tasks"})
	same(b, "late", len(b.attention("late"))+len(b.attention("recurring")), 0)
}

// A recurring task needs a person if its fire is late, if it fires no more, or if its occurrences fail. More findings
// than ten of a kind become one at the end.
func TestAttentionToRecurringTasks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 12 {
		b.recurringSince(fmt.Sprint("task ", i), "@hourly", time.Hour)
		b.occurrences(fmt.Sprint("task ", i), time.Minute, "FAILED")
	}
	got := b.attention("recurring")
	if len(got) != 10 || !strings.HasPrefix(got[0], "warning 1: 1 recurring task failing, 1 failures in a row, the first (task 0) since") ||
		!strings.HasPrefix(got[9], "warning 3: 3 findings more about recurring tasks") {
		t.Errorf("failing: %s", pretty(got))
	}
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET next_attempt_at = now() - interval '1 hour',
		planned_revision = CASE WHEN id = 'task 1' THEN revision END WHERE id IN ('task 1', 'task 2')`)
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET status = 'FAILED', next_attempt_at = NULL, finished_at = now()
		WHERE id = 'task 3'`)
	got = b.attention("recurring")
	for i, want := range []string{"that FAILED, and will not fire, the first (task 3)", "whose fire is late, the first (task 1)",
		"whose fire nobody plans, the first (task 2)"} {
		if len(got) != 10 || !strings.HasPrefix(got[i], "error 1: 1 recurring task "+want) {
			t.Errorf("want %s: %s", want, pretty(got))
		}
	}
}

// Each late lane is found, also if one of them has more late tasks than are counted.
func TestAttentionToManyLateTasks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.seed(`INSERT INTO tasktable.scheduled_tasks (id, payload, type, revision, next_attempt_at)
		SELECT 'many ' || i, '{"type": "MANY"}'::jsonb, 'MANY', i, now() - interval '2 hours' FROM generate_series(1, 6000) AS i
		UNION ALL SELECT 'one', '{"type": "ONE"}'::jsonb, 'ONE', 1, now() - interval '1 hour'`)
	got := b.attention("late")
	if len(got) != 2 || !strings.HasPrefix(got[0], "error 5000+: 5000 or more late tasks of type MANY") ||
		!strings.HasPrefix(got[1], "error 1: 1 late task of type ONE") {
		t.Errorf("late: %s", pretty(got))
	}
}

// What a pause holds back is not late, because somebody wants that. A pause that has ended holds nothing back.
func TestLateIsNotPaused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, id := range []string{"mail", "other"} {
		b.Schedule(store.Task{ID: id, Payload: payload(1), Queue: id, At: b.Now().Add(-time.Hour)})
	}
	for _, c := range []struct {
		pause store.Scope
		until time.Duration
		want  int
	}{
		{store.Queue("mail"), 0, 1}, {store.Type("TEST"), time.Hour, 0}, {store.Everything(), 0, 0},
		{store.Queue("mail"), time.Millisecond, 2},
	} {
		var until time.Time
		if c.until > 0 {
			until = b.Now().Add(c.until)
		}
		b.must(b.Tasks.PauseScope(b.Ctx, b.Pool, c.pause, until, ""))
		if c.until == time.Millisecond {
			b.Exec(b.Pool, `SELECT pg_sleep(0.01)`)
		}
		same(b, c.pause.String(), len(b.attention("late")), c.want)
		b.must(b.Tasks.ResumeScope(b.Ctx, b.Pool, c.pause))
	}
}

func TestCountUpTo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 5 {
		b.Schedule(base(fmt.Sprint(i)))
	}
	for driver, db := range b.Readers() {
		for most, want := range map[int]string{4: "4 true", 5: "5 false", 6: "5 false"} {
			n, more, err := b.Inspector.CountUpTo(b.Ctx, db, inspect.Filter{Entity: "event:1"}, most)
			b.Check(err)
			same(b, fmt.Sprint(driver, most), fmt.Sprint(n, more), want)
		}
	}
	for _, most := range []int{0, inspect.MaxCountUpTo + 1} {
		if _, _, err := b.Inspector.CountUpTo(b.Ctx, noDB(b), inspect.Filter{}, most); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("up to %d: %v", most, err)
		}
	}
}
