package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

var scaleBench = Bench{
	Name: "scale", Short: "What the leader's look costs in a table of eleven million rows", Default: 5000000,
	Long: `Measures the leader's statements: a peek, and a pass that claims 100 due tasks. It measures them first in a
small table of 10,000 future tasks. Then it measures them in a large table, which has the given number of future tasks
and as many finished tasks in 50 lanes, and a paused queue with a fifth as many due tasks. The figures are medians of 50
looks. To build the large table takes minutes, and about 450 bytes of disk for each row.`,
	Verified: "each look claimed the 100 tasks that were due, and none of the paused", measure: measureScale,
}

const (
	scaleLooks = 50
	scaleDue   = 100
	scaleSmall = 10000
)

// The statements below insert without triggers, because nobody edits these rows, and because a row then takes only a
// few microseconds. $1 is the number of rows, and $2 is the number before the first.
const scaleFutureSQL = `
INSERT INTO tasktable.scheduled_tasks (id, payload, type, queue, revision, scheduled_at, next_attempt_at)
SELECT 'future ' || n, jsonb_build_object('type', 'BENCH', 'n', n), 'BENCH', 'lane-' || n % 50, n, at, at
FROM (SELECT n, now() + interval '1 day' + n * interval '10 milliseconds' AS at
	FROM generate_series($2::int + 1, $2::int + $1::int) AS n) AS t`

const scaleFinishedSQL = `
INSERT INTO tasktable.scheduled_tasks (id, payload, type, queue, status, revision, attempt, scheduled_at, started_at,
	finished_at)
SELECT 'finished ' || n, jsonb_build_object('type', 'BENCH', 'n', n), 'BENCH', 'lane-' || n % 50, 'COMPLETED', n,
	1, at, at, at
FROM (SELECT n, now() - interval '1 day' - n * interval '10 milliseconds' AS at
	FROM generate_series($2::int + 1, $2::int + $1::int) AS n) AS t`

const scalePausedSQL = `
INSERT INTO tasktable.scheduled_tasks (id, payload, type, queue, revision, scheduled_at, next_attempt_at)
SELECT 'paused ' || n, jsonb_build_object('type', 'BENCH', 'n', n), 'BENCH', 'paused', n, at, at
FROM (SELECT n, now() - interval '1 hour' AS at FROM generate_series($2::int + 1, $2::int + $1::int) AS n) AS t`

func measureScale(ctx context.Context, config Config, result *Result) error {
	small, err := scaleIn(ctx, config, func(d *database) error {
		return d.load(ctx, config, scaleFutureSQL, scaleSmall, "future")
	})
	if err != nil {
		return err
	}
	config.Say("%d rows: peek %s, pass %s", scaleSmall, small.peek, small.pass)
	large, err := scaleIn(ctx, config, func(d *database) error { return d.loadLarge(ctx, config) })
	if err != nil {
		return err
	}
	config.Say("%d rows: peek %s, pass %s", 2*config.Tasks+config.Tasks/5, large.peek, large.pass)
	ratio := func(a, b time.Duration) float64 { return a.Seconds() / b.Seconds() }
	result.add("rows", float64(2*config.Tasks+config.Tasks/5), "rows of the large table")
	result.add("peek_ms", large.peek.Seconds()*1000, "ms, a peek in the large table")
	result.add("pass_ms", large.pass.Seconds()*1000, "ms, a pass there that claims 100 tasks")
	result.add("peek_ratio", ratio(large.peek, small.peek), "a peek in the large table / in the small one")
	result.add("claim_ratio", ratio(large.pass, small.pass), "a pass in the large table / in the small one")
	return nil
}

type scaleLook struct{ peek, pass time.Duration }

// scaleIn measures in a new database, after load has filled it.
func scaleIn(ctx context.Context, config Config, load func(d *database) error) (found scaleLook, err error) {
	err = within(ctx, config, func(d *database) error {
		if err := load(d); err != nil {
			return err
		}
		return d.withBareEngine(ctx, func(bare *bareEngine) (err error) {
			found, err = d.look(ctx, bare)
			return err
		})
	})
	return found, err
}

// look returns the medians of scaleLooks looks. Before each look tasks become due in several lanes.
func (d *database) look(ctx context.Context, bare *bareEngine) (scaleLook, error) {
	var peeks, passes []time.Duration
	for i := range scaleLooks {
		if err := d.insertLanes(ctx, fmt.Sprintf("due %d %d", i, time.Now().UnixNano()), scaleDue); err != nil {
			return scaleLook{}, err
		}
		peek, pass, claimed, err := bare.look(ctx)
		if err != nil {
			return scaleLook{}, err
		}
		if claimed != scaleDue {
			return scaleLook{}, failed("%d tasks were claimed, %d are due", claimed, scaleDue)
		}
		peeks, passes = append(peeks, peek), append(passes, pass)
	}
	slices.Sort(peeks)
	slices.Sort(passes)
	return scaleLook{peeks[len(peeks)/2], passes[len(passes)/2]}, nil
}

const insertLanesSQL = `
INSERT INTO tasktable.scheduled_tasks (id, payload, queue)
SELECT $1 || ' ' || n, jsonb_build_object('type', 'BENCH', 'n', n), 'lane-' || n % 10
	FROM generate_series(1, $2::int) AS n`

func (d *database) insertLanes(ctx context.Context, prefix string, tasks int) error {
	if _, err := d.Pool.Exec(ctx, insertLanesSQL, prefix, tasks); err != nil {
		return fmt.Errorf("insert due tasks: %w", err)
	}
	return nil
}

func (d *database) loadLarge(ctx context.Context, config Config) error {
	for _, one := range []struct {
		sql   string
		rows  int
		named string
	}{
		{scaleFutureSQL, config.Tasks, "future"},
		{scaleFinishedSQL, config.Tasks, "finished"},
		{scalePausedSQL, config.Tasks / 5, "due and paused"},
	} {
		if err := d.load(ctx, config, one.sql, one.rows, one.named); err != nil {
			return err
		}
	}
	return d.exec(ctx, `SELECT tasktable.pause_scope('queue', 'paused')`)
}

const scaleChunk = 500000

// load inserts rows without triggers, scaleChunk rows at a time, and vacuums.
func (d *database) load(ctx context.Context, config Config, sql string, rows int, named string) error {
	if err := d.exec(ctx, "ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER"); err != nil {
		return err
	}
	for from := 0; from < rows; from += scaleChunk {
		some := min(scaleChunk, rows-from)
		if _, err := d.Pool.Exec(ctx, sql, some, from); err != nil {
			return fmt.Errorf("load: %w", err)
		}
		config.Say("%d of %d %s", from+some, rows, named)
	}
	if err := d.exec(ctx, "ALTER TABLE tasktable.scheduled_tasks ENABLE TRIGGER USER"); err != nil {
		return err
	}
	return d.quiet(ctx)
}
