package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/throwaway"
	"github.com/tasktable/tasktable/store/storetest"
	"github.com/tasktable/tasktable/store/storetest/leaks"
)

func TestMain(m *testing.M) {
	if throwaway.IsProcess() { // the process that the bench recover kills
		if err := runChild(context.Background(), os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	storetest.Main(m, leaks.Check)
}

// Each bench does its work in small, verifies it, and has figures that can be. How good they are is not for a test to
// say: it may run beside anything.
func TestEachBench(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tasks   int
		figures []string
	}{
		"drain": {
			2000, []string{"tasks_per_s", "river_per_s", "floor_per_s", "vs_river", "vs_floor", "wal_bytes_per_task"},
		},
		"precise": {50, []string{"p50_ms", "p99_ms", "max_ms", "now_p50_ms", "now_p99_ms", "river_p50_ms"}},
		"herd":    {500, []string{"first_ms", "p50_ms", "last_ms"}},
		"schedule": {
			500,
			[]string{
				"single_per_s", "bulk_per_s", "replay_per_s", "river_single_per_s", "river_bulk_per_s",
				"single_vs_river", "bulk_vs_river", "replay_vs_single",
			},
		},
		"ramp":     {1000, []string{"hour_00_per_s", "hour_12_p99_ms", "hour_23_p50_ms"}},
		"scale":    {20000, []string{"rows", "peek_ms", "pass_ms", "peek_ratio", "claim_ratio"}},
		"snapshot": {2000, []string{"before_per_s", "after_per_s", "snapshot_ratio"}},
		"idle":     {0, []string{"transactions_per_minute", "statements_per_minute", "transactions_per_minute_3"}},
		"recover":  {20, []string{"seconds", "seconds_leader"}},
		"reads":    {2000, []string{"list_p50_ms", "list_p95_ms", "list_message_p95_ms", "series_p95_ms", "why_p95_ms"}},
		"crowd":    {200, []string{"at_once", "seconds"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, err := pgx.ParseConfig(storetest.EmptyURL(t))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
			defer cancel()
			i := slices.IndexFunc(All, func(b Bench) bool { return b.Name == name })
			if i < 0 {
				t.Fatal("there is no such bench")
			}
			result, err := All[i].Run(ctx, Config{
				Server: server, Tasks: c.tasks, Rounds: 1, Idle: 5 * time.Second, Say: t.Logf,
			})
			if err != nil {
				t.Fatal(err)
			}
			found := map[string]float64{}
			for _, figure := range result.Figures {
				found[figure.Name] = figure.Value
				if figure.Meaning == "" {
					t.Errorf("%s has no meaning", figure.Name)
				}
			}
			for _, figure := range c.figures {
				if found[figure] <= 0 {
					t.Errorf("%s is %f", figure, found[figure])
				}
			}
			if name == "precise" && found["early"] != 0 || result.Bench != name || result.Verified == "" {
				t.Errorf("result %+v", result)
			}
			t.Log(found)
		})
	}
}

// The figures go to the standard output, as a table or as one JSON object. All else goes to the other.
func TestPrint(t *testing.T) {
	t.Setenv("DATABASE_URL", storetest.EmptyURL(t))
	var table, object, progress bytes.Buffer
	small := []string{"schedule", "-n", "50", "-rounds", "1"}
	if err := runBench(t.Context(), small, &table, &progress); err != nil ||
		!strings.Contains(table.String(), "bulk_per_s") || !strings.Contains(progress.String(), "verified: ") {
		t.Errorf("%v: %s%s", err, &table, &progress)
	}
	err := runBench(t.Context(), append(small, "-json"), &object, io.Discard)
	var figures map[string]any
	err = errors.Join(err, json.Unmarshal(object.Bytes(), &figures))
	if err != nil || figures["bench"] != "schedule" || figures["bulk_per_s"] == nil {
		t.Errorf("%v: %s", err, &object)
	}
	for _, wrong := range [][]string{nil, {"drian"}, {"drain", "-n", "-1"}, {"drain", "-rounds", "0"}, {"drain", "x"}} {
		if err := runBench(t.Context(), wrong, io.Discard, io.Discard); err == nil {
			t.Errorf("%q runs", wrong)
		}
	}
}

// What a bench finds wrong is an error, not a figure.
func TestVerify(t *testing.T) {
	t.Parallel()
	server, err := pgx.ParseConfig(storetest.EmptyURL(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	err = withNode(ctx, Config{Server: server}.withDefaults(1), func(d *database, _ *node) error {
		if err := d.verify(ctx, "warm", warmTasks); err != nil {
			t.Errorf("all is well: %v", err)
		}
		if err := d.verify(ctx, "warm", warmTasks+1); err == nil {
			t.Error("a task that is not there goes unnoticed")
		}
		for what, sql := range map[string]string{
			"one that waits": `UPDATE tasktable.scheduled_tasks
				SET scheduled_at = now() + interval '1 day', status = 'QUEUED' WHERE id = 'warm 1'`,
			"one that ran twice": `INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision,
				attempt, scheduled_at, finished_at, outcome)
				SELECT -1, id, type, revision, 1, scheduled_at, now(), 'COMPLETED' FROM tasktable.scheduled_tasks
					WHERE id = 'warm 2'`,
			"one that was early": `INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision,
				attempt, scheduled_at, due_at, started_at, finished_at, outcome)
				SELECT -1, id, type, revision, 1, scheduled_at, now(), now() - interval '1 ms', now(), 'COMPLETED'
					FROM tasktable.scheduled_tasks WHERE id = 'warm 3'`,
		} {
			tx, err := d.Pool.Begin(ctx)
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
			var open, all, executions, others, twice, early int
			if err := tx.QueryRow(ctx, verifySQL, "warm ").Scan(
				&open, &all, &executions, &others, &twice, &early,
			); err != nil {
				return err
			}
			if open+twice+early == 0 {
				t.Errorf("%s goes unnoticed", what)
			}
			if err := tx.Rollback(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
