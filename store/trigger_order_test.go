package store_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// moveSQL is an application's trigger that moves its tasks, whatever it is called.
const moveSQL = `CREATE FUNCTION move() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	NEW.scheduled_at := '2100-01-01 00:10Z';
	RETURN NEW;
END $$`

// manySQL schedules enough tasks for schedule_many to insert them by one statement.
const manySQL = `SELECT tasktable.schedule_many(jsonb_agg(jsonb_build_object('id', n::text, 'payload',
	'{"type": "TEST"}'::jsonb,
	'scheduled_at', '2100-01-01 00:00Z'))) FROM generate_series(1, 30) AS n`

// Postgres fires triggers in the order of their names. A task is due at the time that an application's
// trigger has given it.
func TestATriggerThatMovesTasksMovesThem(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a_move", "zz_move", "zzz_move"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.Exec(b.Pool, moveSQL)
			b.Exec(b.Pool, `CREATE TRIGGER `+name+` BEFORE INSERT OR UPDATE OF payload ON tasktable.scheduled_tasks
				FOR EACH ROW EXECUTE FUNCTION move()`)
			b.Schedule(base("one"))
			b.Exec(b.Pool, `INSERT INTO tasktable.scheduled_tasks (id, payload, scheduled_at)
				VALUES ('plain', '{"type": "TEST"}', '2100-01-01Z')`)
			b.Exec(b.Pool, manySQL)
			b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET payload = '{"type": "TEST", "n": 5}' WHERE id = 'one'`)
			for _, id := range []string{"one", "plain", "17"} {
				row := b.Get(id)
				if row.NextAttemptAt == nil || !row.NextAttemptAt.Equal(far(10)) || !row.ScheduledAt.Equal(far(10)) {
					t.Errorf(
						"%s: scheduled_at %s, but due at %v", id, row.ScheduledAt.Format(time.RFC3339),
						row.NextAttemptAt,
					)
				}
			}
		})
	}
}

// One whose name sorts after ours all the same would have the task run at another time than its row
// says: it is refused.
func TestATriggerAfterOursThatMovesTasksIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Make("one", "QUEUED")
	b.Exec(b.Pool, moveSQL)
	b.Exec(b.Pool, `CREATE TRIGGER zzzz_move BEFORE INSERT OR UPDATE OF payload ON tasktable.scheduled_tasks
		FOR EACH ROW EXECUTE FUNCTION move()`)
	before := b.state("one")
	for _, sql := range []string{
		`SELECT tasktable.schedule('{"type": "TEST"}', '2100-01-01Z', 'new')`,
		`INSERT INTO tasktable.scheduled_tasks (id, payload, scheduled_at)
			VALUES ('new', '{"type": "TEST"}', '2100-01-01Z')`,
		`UPDATE tasktable.scheduled_tasks SET payload = '{"type": "TEST", "n": 5}' WHERE id = 'one'`, manySQL,
	} {
		b.refused(sql, "was changed by a trigger that fires after zzz_task_1_edit")
	}
	same(b, "task", b.state("one"), before)
}

// No setting of a session takes the checks and the record of inserts away.
func TestNoSettingTakesTheChecksOfInsertsAway(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tx := b.Begin(pgx.TxOptions{})
	b.Exec(tx, `SET LOCAL tasktable_change.bulk = '0'`)
	b.Exec(tx, `INSERT INTO tasktable.scheduled_tasks (id, payload, type, revision, attempt, next_attempt_at)
		VALUES ('one', '{"type": "TEST"}', 'TEST', 1, 3, '2000-01-01')`)
	b.Exec(tx, `SELECT tasktable.schedule('{"type": "TEST"}', id => 'two')`)
	b.Check(tx.Commit(b.Ctx))
	row := b.Get("one")
	if row.Attempt != 0 || !row.NextAttemptAt.Equal(row.ScheduledAt) || len(b.Changes("one")) != 1 ||
		len(b.Changes("two")) != 1 {
		t.Errorf("the row is %s, with %d lines of changes", pretty(row), len(b.Changes("one")))
	}
}

// However many there are, schedule_many takes only tasks that schedule takes.
func TestScheduleManyRefusesWhatScheduleRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, n := range []string{"19", "20", "100"} {
		b.refused(`SELECT tasktable.schedule_many(jsonb_agg(jsonb_build_object('id', n::text, 'payload',
			'{"type": "TEST"}'::jsonb,
			'time_zone', 'Europe/Berlin'))) FROM generate_series(1, `+n+`) AS n`, "settings of recurrence need cron")
	}
}
