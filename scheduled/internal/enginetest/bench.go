// Package enginetest is shared by the tests of the engine's packages. Nothing else uses it.
package enginetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/seal"
	"github.com/tasktable/tasktable/store/storetest"
)

// Noon is the time at which most tests of single statements play, far from the real one.
var Noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// Bench is a database of a test. The test runs the engine's statements on it at chosen times, and the handlers of
// workers and nodes, which the test ends one by one.
type Bench struct {
	T    *testing.T
	Pool *pgxpool.Pool
	taskdb.Queries
	Tasks *store.Store // its own, so that other tests do not use up how often it may notify

	steering *steering
}

// New makes a bench with a database of its own.
func New(t *testing.T) *Bench {
	t.Helper()
	schema, err := store.NewSchema("")
	OK(t, err)
	return &Bench{
		T: t, Pool: storetest.Pool(t), Queries: taskdb.Queries{Schema: schema},
		Tasks: store.New(store.Config{Service: "test"}), steering: newSteering(),
	}
}

// Seal has the bench's store encrypt payloads, by the codec that it returns.
func (b *Bench) Seal() store.Codec {
	b.T.Helper()
	codec, err := seal.New(seal.Key{ID: "test", Secret: make([]byte, seal.SecretBytes)})
	b.OK(err)
	b.Tasks = store.New(store.Config{Service: "test", Codec: codec})
	return codec
}

// OK fails the test because of an error.
func (b *Bench) OK(err error) {
	b.T.Helper()
	OK(b.T, err)
}

// Did is OK for what returns a value that the test does not need.
func (b *Bench) Did(_ any, err error) {
	b.T.Helper()
	OK(b.T, err)
}

// Exec runs a statement, and fails the test if that fails.
func (b *Bench) Exec(sql string, args ...any) {
	b.T.Helper()
	b.Did(b.Pool.Exec(b.T.Context(), sql, args...))
}

// Schedule schedules JOB tasks with their name as id.
func (b *Bench) Schedule(tasks ...store.Task) {
	b.T.Helper()
	for _, task := range tasks {
		if task.ID == "" {
			task.ID = task.Payload.(Job).Name
		}
		Schedule(b.T, b.Pool, task)
	}
}

// Due schedules JOB tasks for noon, with their names as ids.
func (b *Bench) Due(names ...string) {
	b.T.Helper()
	for _, name := range names {
		b.Schedule(store.Task{Payload: Job{Name: name}, At: Noon})
	}
}

// Begin begins a transaction, which is rolled back when the test ends.
func (b *Bench) Begin() pgx.Tx {
	b.T.Helper()
	tx, err := b.Pool.Begin(b.T.Context())
	b.OK(err)
	b.T.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(b.T.Context())) })
	return tx
}

// InTx runs do in a transaction as the engine's own: with its plans and its lock timeout.
func (b *Bench) InTx(do func(tx pgx.Tx)) {
	b.T.Helper()
	err := pgx.BeginFunc(b.T.Context(), b.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(
			b.T.Context(), strings.ReplaceAll(pg.PlanSettingsSQL, "SET ", "SET LOCAL "),
		); err != nil {
			return err
		}
		do(tx)
		return nil
	})
	b.OK(err)
}

// ClaimFrom claims as a pass does. The start allowance is 1 minute.
func (b *Bench) ClaimFrom(now time.Time, lookAhead time.Duration, grants ...taskdb.Grant) (taken []taskdb.ClaimedLane) {
	b.T.Helper()
	b.InTx(func(tx pgx.Tx) {
		b.Did(tx.Exec(b.T.Context(), taskdb.EnterSQL))
		var err error
		if taken, err = b.Claim(b.T.Context(), tx, &now, lookAhead, time.Minute, grants); err != nil {
			b.T.Fatal(err)
		}
	})
	return taken
}

// ClaimsOf returns the claims of the tasks that are to run.
func ClaimsOf(taken []taskdb.ClaimedLane) (claims []taskdb.Claim) {
	for _, lane := range taken {
		for _, c := range lane.Tasks {
			claims = append(claims, c.Claim)
		}
	}
	return claims
}

// Jobs grants some plain JOB tasks.
func Jobs(priority, tasks int) taskdb.Grant {
	return taskdb.Grant{
		Lane: taskdb.Lane{Queue: "default", Type: "JOB", Priority: priority}, Tasks: tasks, Near: true,
	}
}

// Take claims the JOB tasks that are due, and returns their holds by id.
func (b *Bench) Take(now time.Time) map[string]taskdb.Claim {
	b.T.Helper()
	holds := map[string]taskdb.Claim{}
	for _, c := range ClaimsOf(b.ClaimFrom(now, 0, Jobs(0, 1000))) {
		holds[c.ID] = c
	}
	return holds
}

// TakeOne schedules a task for noon and claims it then.
func (b *Bench) TakeOne(task store.Task) taskdb.Claim {
	b.T.Helper()
	task.At = Noon
	b.Schedule(task)
	holds := b.Take(Noon)
	if len(holds) != 1 {
		b.T.Fatalf("claimed %v, want one", holds)
	}
	for _, h := range holds {
		return h
	}
	panic("unreachable")
}

// Ask puts holds to the gate.
func (b *Bench) Ask(now time.Time, holds ...taskdb.Claim) map[int64]taskdb.GateAnswer {
	b.T.Helper()
	answers, err := b.Gate(b.T.Context(), b.Pool, &now, holds, true)
	b.OK(err)
	return answers
}

// End settles with all effects in one transaction, as node 7.
func (b *Bench) End(now time.Time, settlements ...taskdb.Settlement) []taskdb.SettleResult {
	b.T.Helper()
	var done []taskdb.SettleResult
	b.InTx(func(tx pgx.Tx) { done = b.endIn(tx, now, settlements...) })
	return done
}

func (b *Bench) endIn(tx pgx.Tx, now time.Time, settlements ...taskdb.Settlement) []taskdb.SettleResult {
	b.T.Helper()
	node := int64(7)
	done, err := b.SettleAll(b.T.Context(), tx, &now, &node, "test", settlements)
	b.OK(err)
	slices.SortFunc(done, func(x, y taskdb.SettleResult) int { return int(x.Fence - y.Fence) })
	return done
}

// Completed is the settlement of an attempt of a task of noon that started when it was due, and went well.
func Completed(h taskdb.Claim) taskdb.Settlement {
	return taskdb.Settlement{
		Claim: h, Type: "JOB", ScheduledAt: &Noon, StartedAt: &h.Due,
		Outcome: taskdb.OutcomeCompleted, Edited: taskdb.OutcomeSuperseded, To: store.StatusCompleted,
	}
}

// Retried is the settlement of an attempt that failed and is tried again after the given time.
func Retried(h taskdb.Claim, in time.Duration, why string) taskdb.Settlement {
	s := Completed(h)
	s.Outcome, s.To, s.NextIn, s.Error, s.Message = taskdb.OutcomeRetried, store.StatusQueued, in, &why, &why
	return s
}

// Lock keeps a task's row locked, as an application's open transaction does, until the returned function ends it.
func Lock(t *testing.T, pool *pgxpool.Pool, id string) (unlock func()) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	OK(t, err)
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

// Expect compares the whole of a task, row and history, with a text as stateOf writes it.
func (b *Bench) Expect(what, id, want string) {
	b.T.Helper()
	b.sameLines(what, id, StateOf(b.T, b.Pool, id), want)
}

// sameLines compares lines about a task. Indentation and empty lines of the wanted ones do not count.
func (b *Bench) sameLines(what, id, got, want string) {
	b.T.Helper()
	var lines []string
	for line := range strings.Lines(want) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	if got != strings.Join(lines, "\n") {
		b.T.Errorf("%s: task %s is\n%s\nwant\n%s", what, id, got, strings.Join(lines, "\n"))
	}
}

// StateOf writes a task's row, its executions and its changes, a line each. Revisions are numbered from 1, times count
// from noon; a real time is "real".
func StateOf(t *testing.T, pool *pgxpool.Pool, id string) string {
	t.Helper()
	history, err := Tasks.History(t.Context(), pool, id)
	OK(t, err)
	revisions := map[int64]int{}
	for i, change := range history.Changes {
		revisions[change.Revision] = i + 1
	}
	var text strings.Builder
	if row, err := Tasks.Get(t.Context(), pool, id); err != nil {
		text.WriteString("absent")
	} else {
		writeRow(&text, row, revisions)
	}
	for _, e := range history.Executions {
		fmt.Fprintf(&text, "\n%s rev=%d attempt=%d", e.Outcome, revisions[e.Revision], e.Attempt)
		Write(&text, "scheduled", &e.ScheduledAt)
		Write(&text, "due", e.DueAt)
		Write(&text, "started", e.StartedAt)
		Write(&text, "finished", &e.FinishedAt)
		WriteText(&text, "error", e.Error)
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
	Write(text, "scheduled", &row.ScheduledAt)
	Write(text, "run_now", row.RunNowAt)
	Write(text, "next", row.NextAttemptAt)
	if row.Fence != nil {
		text.WriteString(" fence")
	}
	Write(text, "lease_expires_at", row.LeaseExpiresAt)
	Write(text, "started", row.StartedAt)
	Write(text, "finished", row.FinishedAt)
	WriteText(text, "message", row.Message)
	if row.Result != nil {
		fmt.Fprintf(text, " result=%s", row.Result)
	}
}

// Write writes a time, counted from Noon.
func Write(text *strings.Builder, name string, at *time.Time) {
	if at == nil {
		return
	}
	offset := at.Sub(Noon)
	switch {
	case offset == 0:
		fmt.Fprintf(text, " %s=noon", name)
	case offset.Abs() < 1000*time.Hour:
		fmt.Fprintf(text, " %s=%s", name, offset)
	default:
		fmt.Fprintf(text, " %s=real", name)
	}
}

// WriteText writes a text, if there is one.
func WriteText(text *strings.Builder, name string, value *string) {
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

// Offset is a time counted from Noon, as text.
func Offset(at time.Time) string {
	if at.Equal(Noon) {
		return "noon"
	}
	return at.Sub(Noon).String()
}
