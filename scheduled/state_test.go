package scheduled

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

// noon is the time at which most tests of single statements play, far from the real one.
var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// bench runs the engine's statements at chosen times, without a node.
type bench struct {
	t    *testing.T
	pool *pgxpool.Pool
	taskdb.Queries
}

func newBench(t *testing.T) *bench {
	t.Helper()
	schema, err := store.NewSchema("")
	if err != nil {
		t.Fatal(err)
	}
	return &bench{t: t, pool: storetest.Pool(t), Queries: taskdb.Queries{Schema: schema}}
}

func (b *bench) exec(sql string, args ...any) {
	b.t.Helper()
	if _, err := b.pool.Exec(b.t.Context(), sql, args...); err != nil {
		b.t.Fatal(err)
	}
}

// schedule schedules JOB tasks with their name as id.
func (b *bench) schedule(tasks ...store.Task) {
	b.t.Helper()
	for _, task := range tasks {
		if task.ID == "" {
			task.ID = task.Payload.(job).Name
		}
		schedule(b.t, b.pool, task)
	}
}

// inTx runs do in a transaction as the engine's own: with its plans and its lock timeout.
func (b *bench) inTx(do func(tx pgx.Tx)) {
	b.t.Helper()
	err := pgx.BeginFunc(b.t.Context(), b.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(
			b.t.Context(), strings.ReplaceAll(taskdb.PlanSettingsSQL, "SET ", "SET LOCAL "),
		); err != nil {
			return err
		}
		do(tx)
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// claimFrom claims from lanes as a pass does, with a lease of 1 minute besides the expected time.
func (b *bench) claimFrom(
	now time.Time, lookAhead time.Duration, most int, lanes ...taskdb.LaneQuota,
) []taskdb.ClaimedTask {
	b.t.Helper()
	var taken []taskdb.ClaimedTask
	b.inTx(func(tx pgx.Tx) {
		if _, err := tx.Exec(b.t.Context(), taskdb.EnterSQL); err != nil {
			b.t.Fatal(err)
		}
		var err error
		if taken, err = b.Claim(b.t.Context(), tx, &now, lookAhead, time.Minute, lanes, most); err != nil {
			b.t.Fatal(err)
		}
	})
	return taken
}

// jobs is the lane of plain JOB tasks.
func jobs(priority, pool, room int) taskdb.LaneQuota {
	return taskdb.LaneQuota{
		Lane: taskdb.Lane{Queue: "default", Type: "JOB", Priority: priority}, Pool: pool, Room: room, Near: room,
		Slots: room,
	}
}

// take claims the JOB tasks that are due, and returns their holds by id.
func (b *bench) take(now time.Time) map[string]taskdb.Claim {
	b.t.Helper()
	holds := map[string]taskdb.Claim{}
	for _, c := range b.claimFrom(now, 0, 1000, jobs(0, 0, 1000)) {
		if c.Fence != nil {
			holds[c.ID] = c.Claim()
		}
	}
	return holds
}

// takeOne schedules a task for noon and claims it then.
func (b *bench) takeOne(task store.Task) taskdb.Claim {
	b.t.Helper()
	task.At = noon
	b.schedule(task)
	holds := b.take(noon)
	if len(holds) != 1 {
		b.t.Fatalf("claimed %v, want one", holds)
	}
	for _, h := range holds {
		return h
	}
	panic("unreachable")
}

// ask puts holds to the gate.
func (b *bench) ask(now time.Time, holds ...taskdb.Claim) map[int64]taskdb.GateAnswer {
	b.t.Helper()
	answers, err := b.Gate(b.t.Context(), b.pool, &now, holds, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return answers
}

// end settles with all effects in one transaction, as node 7.
func (b *bench) end(now time.Time, settlements ...taskdb.Settlement) []taskdb.SettleResult {
	b.t.Helper()
	var done []taskdb.SettleResult
	b.inTx(func(tx pgx.Tx) { done = b.endIn(tx, now, settlements...) })
	return done
}

func (b *bench) endIn(tx pgx.Tx, now time.Time, settlements ...taskdb.Settlement) []taskdb.SettleResult {
	b.t.Helper()
	node := int64(7)
	done, err := b.SettleAll(b.t.Context(), tx, &now, &node, "test", settlements)
	if err != nil {
		b.t.Fatal(err)
	}
	slices.SortFunc(done, func(x, y taskdb.SettleResult) int { return int(x.Fence - y.Fence) })
	return done
}

// completed is the settlement of an attempt of a task of noon that started when it was due, and went well.
func completed(h taskdb.Claim) taskdb.Settlement {
	return taskdb.Settlement{
		Claim: h, Type: "JOB", ScheduledAt: &noon, StartedAt: &h.Due,
		Outcome: taskdb.OutcomeCompleted, Edited: taskdb.OutcomeSuperseded, To: store.StatusCompleted,
	}
}

func retried(h taskdb.Claim, in time.Duration, why string) taskdb.Settlement {
	s := completed(h)
	s.Outcome, s.To, s.NextIn, s.Error, s.Message = taskdb.OutcomeRetried, store.StatusQueued, in, &why, &why
	return s
}

// lock keeps a task's row locked, as an application's open transaction does, until the returned function ends it.
func lock(t *testing.T, pool *pgxpool.Pool, id string) (unlock func()) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	open := true
	unlock = func() {
		if open {
			open = false
			_ = tx.Rollback(context.WithoutCancel(t.Context()))
		}
	}
	t.Cleanup(unlock)
	if _, err := tx.Exec(
		t.Context(), `SELECT FROM tasktable.scheduled_tasks WHERE id = $1 FOR UPDATE`, id,
	); err != nil {
		t.Fatal(err)
	}
	return unlock
}

// expect compares the whole of a task, row and history, with a text as stateOf writes it.
func (b *bench) expect(what, id, want string) {
	b.t.Helper()
	var lines []string
	for line := range strings.Lines(want) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	if got := stateOf(b.t, b.pool, id); got != strings.Join(lines, "\n") {
		b.t.Errorf("%s: task %s is\n%s\nwant\n%s", what, id, got, strings.Join(lines, "\n"))
	}
}

// stateOf writes a task's row, its executions and its changes, a line each. Revisions are numbered from 1, times count
// from noon; a real time is "real".
func stateOf(t *testing.T, pool *pgxpool.Pool, id string) string {
	t.Helper()
	history, err := tasks.History(t.Context(), pool, id)
	if err != nil {
		t.Fatal(err)
	}
	revisions := map[int64]int{}
	for i, change := range history.Changes {
		revisions[change.Revision] = i + 1
	}
	var text strings.Builder
	if row, err := tasks.Get(t.Context(), pool, id); err != nil {
		text.WriteString("absent")
	} else {
		writeRow(&text, row, revisions)
	}
	for _, e := range history.Executions {
		fmt.Fprintf(&text, "\n%s rev=%d attempt=%d", e.Outcome, revisions[e.Revision], e.Attempt)
		write(&text, "scheduled", &e.ScheduledAt)
		write(&text, "due", e.DueAt)
		write(&text, "started", e.StartedAt)
		write(&text, "finished", &e.FinishedAt)
		writeText(&text, "error", e.Error)
		if e.Node != nil {
			fmt.Fprintf(&text, " node=%d", *e.Node)
		}
	}
	for _, c := range history.Changes {
		fmt.Fprintf(&text, "\n%d %s %s by %s", revisions[c.Revision], c.Verb, c.Outcome, author(c.ChangedBy))
	}
	return text.String()
}

func writeRow(text *strings.Builder, row store.Row, revisions map[int64]int) {
	fmt.Fprintf(text, "%s rev=%d attempt=%d", row.Status, revisions[row.Revision], row.Attempt)
	write(text, "scheduled", &row.ScheduledAt)
	write(text, "run_now", row.RunNowAt)
	write(text, "next", row.NextAttemptAt)
	if row.Fence != nil {
		text.WriteString(" fence")
	}
	write(text, "lease_expires_at", row.LeaseExpiresAt)
	write(text, "started", row.StartedAt)
	write(text, "finished", row.FinishedAt)
	writeText(text, "message", row.Message)
	if row.Result != nil {
		fmt.Fprintf(text, " result=%s", row.Result)
	}
}

func write(text *strings.Builder, name string, at *time.Time) {
	if at == nil {
		return
	}
	offset := at.Sub(noon)
	switch {
	case offset == 0:
		fmt.Fprintf(text, " %s=noon", name)
	case offset.Abs() < 1000*time.Hour:
		fmt.Fprintf(text, " %s=%s", name, offset)
	default:
		fmt.Fprintf(text, " %s=real", name)
	}
}

func writeText(text *strings.Builder, name string, value *string) {
	if value != nil {
		fmt.Fprintf(text, " %s=%q", name, *value)
	}
}

// author hides the database role, which differs from server to server.
func author(by string) string {
	if by == "test" || strings.HasPrefix(by, "task ") || strings.HasPrefix(by, "node ") {
		return by
	}
	return "tester"
}

func offset(at time.Time) string {
	if at.Equal(noon) {
		return "noon"
	}
	return at.Sub(noon).String()
}
