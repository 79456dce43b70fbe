package taskdb_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
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
	b := newBench(t)
	const n = 60
	for i := range n {
		b.Due(fmt.Sprintf("asks %02d", i))
	}
	holds := b.Take(noon)
	var group []taskdb.Settlement
	for i := range n {
		h := holds[fmt.Sprintf("asks %02d", i)]
		group = append(group, enginetest.FollowedBy(h,
			store.Task{ID: fmt.Sprintf("own %02d", i), Payload: job{Name: "own"}, At: noon},
			store.Task{ID: "shared", Payload: job{Name: h.ID}, At: noon},
		))
	}
	const most = 4 // lock, settle, schedule, say who asked
	b.InTx(func(tx pgx.Tx) {
		counted := &countedTx{Tx: tx}
		done, err := b.SettleAll(t.Context(), counted, &noon, nil, "test", group)
		b.OK(err)
		if slices.ContainsFunc(done, func(s taskdb.SettleResult) bool { return !s.Settled }) || len(done) != n {
			t.Errorf("settled %+v", done)
		}
		if counted.statements > most {
			t.Errorf("%d statements for %d tasks, want %d at most", counted.statements, n, most)
		}
	})
	for i := range n {
		b.Expect("each is scheduled by the task that asked for it", fmt.Sprintf("own %02d", i), fmt.Sprintf(`
			QUEUED rev=1 attempt=0 scheduled=noon next=noon
			1 schedule created by task asks %02d`, i))
	}
	shared, err := enginetest.Tasks.History(t.Context(), b.Pool, "shared")
	b.OK(err)
	if len(shared.Changes) != n {
		t.Errorf("%d changes of the follow-up that all ask for, want %d", len(shared.Changes), n)
	}
	row, err := enginetest.Tasks.Get(t.Context(), b.Pool, "shared")
	if err != nil || string(row.Payload) != fmt.Sprintf(`{"name": "asks %d", "type": "JOB"}`, n-1) {
		t.Errorf("the last duplicate did not win: %s, %v", row.Payload, err)
	}
}
