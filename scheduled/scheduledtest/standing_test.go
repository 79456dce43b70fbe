package scheduledtest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/scheduledtest"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

// A finished task runs again at the very time at which it was scheduled, as it does on a node, whose clock goes on.
func TestRearmWhileTheTimeStandsStill(t *testing.T) {
	t.Parallel()
	tx := begin(t, storetest.Pool(t))
	var keys []string
	h := scheduledtest.New(
		t, tx, registry(t, handlers.Handle(func(_ context.Context, task *handlers.Task[reminder]) error {
			keys = append(keys, task.IdempotencyKey())
			return nil
		})),
	)
	h.SetNow(t.Context(), fivePM)
	for round, want := range []store.Outcome{store.Created, store.Rearmed, store.Rearmed} {
		done, err := tasks.Schedule(t.Context(), tx, store.Task{Payload: reminder{"x"}, IfFinished: store.Rearm})
		if err != nil || done.Outcome != want {
			t.Fatalf("round %d: %+v, %v", round, done, err)
		}
		runs(t, h, fivePM, "COMPLETED")
	}
	if len(keys) != 3 || keys[0] == keys[1] || keys[1] == keys[2] {
		t.Errorf("keys %v", keys)
	}
}

// fatals keeps the text with which a test fails.
type fatals struct {
	testing.TB
	text string
}

func (f *fatals) Fatalf(format string, args ...any) { f.text = fmt.Sprintf(format, args...) }

// A chain of follow-ups runs to its end at once. One without an end fails the test.
func TestLongChainOfFollowUps(t *testing.T) {
	t.Parallel()
	for name, endless := range map[string]bool{"long": false, "endless": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tx := begin(t, storetest.Pool(t))
			fatal := &fatals{TB: t}
			steps := 0
			h := scheduledtest.New(
				fatal, tx, registry(t, handlers.Handle(func(_ context.Context, task *handlers.Task[reminder]) error {
					if steps++; endless || steps < 15 {
						task.FollowUp(store.Task{Payload: reminder{fmt.Sprint(steps)}})
					}
					return nil
				})),
			)
			schedule(t, tx, store.Task{Payload: reminder{"x"}, At: fivePM})
			ran := h.RunDueAt(t.Context(), fivePM)
			if failed := strings.Contains(fatal.text, "does a chain of follow-ups never end?"); failed != endless ||
				!endless && len(ran) != 15 {
				t.Errorf("ran %d tasks, failed with %q", len(ran), fatal.text)
			}
		})
	}
}

// What the handler asked for is refused although it returned nil, so there is an error all the same.
func TestRanHasTheErrorOfItsEffects(t *testing.T) {
	t.Parallel()
	for want, effect := range map[string]func(*handlers.Execution){
		"result must be at most 256 KiB": func(e *handlers.Execution) { e.Result(strings.Repeat("x", handlers.MaxResultBytes)) },
		"the time must be in the years":  func(e *handlers.Execution) { e.Again(time.Time{}) },
		"follow-up 1: ":                  func(e *handlers.Execution) { e.FollowUp(store.Task{}) },
	} {
		for _, inTx := range []bool{false, true} {
			tx := begin(t, storetest.Pool(t))
			run := handlers.Handle(func(_ context.Context, task *handlers.Task[reminder]) error {
				effect(task.Execution)
				return nil
			})
			if inTx {
				run = handlers.HandleTx(func(ctx context.Context, tx pgx.Tx, task *handlers.Task[reminder]) error {
					effect(task.Execution)
					_, err := tx.Exec(ctx, `CREATE TABLE written ()`)
					return err
				})
			}
			h := scheduledtest.New(t, tx, registry(t, run))
			schedule(t, tx, store.Task{Payload: reminder{"x"}, At: fivePM})
			ran := h.RunDueAt(t.Context(), fivePM)
			if len(ran) != 1 || ran[0].Outcome != "FAILED" || !errors.Is(ran[0].Err, store.ErrInvalid) ||
				!strings.Contains(ran[0].Err.Error(), want) {
				t.Errorf("%s, in a transaction %t: %+v", want, inTx, ran)
			}
			var written bool
			if err := tx.QueryRow(t.Context(), `SELECT to_regclass('written') IS NOT NULL`).Scan(&written); err != nil ||
				written {
				t.Errorf("%s: a write of the handler was kept, %v", want, err)
			}
		}
	}
}
