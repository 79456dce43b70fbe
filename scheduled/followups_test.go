package scheduled

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// countedTx counts the statements that are sent through it.
type countedTx struct {
	pgx.Tx
	statements int
}

func (c *countedTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	c.statements++
	return c.Tx.Exec(ctx, sql, args...)
}

func (c *countedTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	c.statements++
	return c.Tx.Query(ctx, sql, args...)
}

// A group of tasks with follow-ups takes as many statements as one task does: each statement is a round trip.
func TestFollowUpsOfAGroupShareStatements(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const n = 60
	for i := range n {
		b.schedule(store.Task{Payload: job{fmt.Sprintf("asks %02d", i)}, At: noon})
	}
	holds := b.take(noon)
	var group []taskdb.Settlement
	for i := range n {
		h := holds[fmt.Sprintf("asks %02d", i)]
		group = append(group, followedBy(h,
			store.Task{ID: fmt.Sprintf("own %02d", i), Payload: job{"own"}, At: noon},
			store.Task{ID: "shared", Payload: job{h.ID}, At: noon},
		))
	}
	const most = 5 // lock, settle, schedule, say who asked, put off
	b.inTx(func(tx pgx.Tx) {
		counted := &countedTx{Tx: tx}
		done, err := b.SettleAll(t.Context(), counted, &noon, nil, "test", group)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(done, func(s taskdb.SettleResult) bool { return !s.Settled }) || len(done) != n {
			t.Errorf("settled %+v", done)
		}
		if counted.statements > most {
			t.Errorf("%d statements for %d tasks, want %d at most", counted.statements, n, most)
		}
	})
	for i := range n {
		b.expect("each is scheduled by the task that asked for it", fmt.Sprintf("own %02d", i), fmt.Sprintf(`
			QUEUED rev=1 attempt=0 scheduled=noon next=noon
			1 schedule created by task asks %02d`, i))
	}
	shared, err := tasks.History(t.Context(), b.pool, "shared")
	if err != nil {
		t.Fatal(err)
	}
	if len(shared.Changes) != n {
		t.Errorf("%d changes of the follow-up that all ask for, want %d", len(shared.Changes), n)
	}
	row, err := tasks.Get(t.Context(), b.pool, "shared")
	if err != nil || string(row.Payload) != fmt.Sprintf(`{"name": "asks %d", "type": "JOB"}`, n-1) {
		t.Errorf("the last duplicate did not win: %s, %v", row.Payload, err)
	}
}
