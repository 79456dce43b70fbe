package store_test

import (
	"testing"
	"time"
)

// Drivers send a duration of a day and more as days (Python's timedelta), and so does Postgres for a difference of
// two times. A day is 24 hours, also where clocks change.
func TestADayIs24Hours(t *testing.T) {
	t.Parallel()
	const hours = `SELECT concat_ws(' ', expiration, expected_execution_time, jitter, retention)
		FROM tasktable.scheduled_tasks WHERE id = $1`
	const want = "36:00:00 24:00:00 24:00:00 720:00:00"
	b := newBench(t)
	const intervals = `expiration => '1 day 12 hours', expected_execution_time => '1 day', jitter => '1 day', ` +
		`retention => '30 days'`
	b.Exec(b.Pool, `SELECT tasktable.schedule('{"type": "TEST"}', '2100-01-01Z', 'one', `+intervals+`)`)
	b.Exec(b.Pool, `SELECT tasktable.schedule_many(jsonb_agg(jsonb_build_object('id', 'many ' || n, 'payload',
		'{"type": "TEST"}'::jsonb,
		'expiration', '1 day 12 hours', 'expected_execution_time', '1 day', 'jitter', '1 day', 'retention', '30 days')))
		FROM generate_series(1, 30) AS n`)
	b.Exec(b.Pool, `INSERT INTO tasktable.scheduled_tasks (id, payload, expiration, expected_execution_time,
		jitter, retention)
		VALUES ('plain', '{"type": "TEST"}', '1 day 12 hours', '1 day', '1 day', '30 days')`)
	b.Schedule(base("edited"))
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks
		SET expiration = '1 day 12 hours', expected_execution_time = '1 day', jitter = '1 day',
		retention = '30 days' WHERE id = 'edited'`)
	for _, id := range []string{"one", "many 7", "plain", "edited"} {
		if got := one[string](b, b.Pool, hours, id); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
	if row := b.Get("one"); *row.Expiration != 36*time.Hour {
		t.Errorf("read: %s", row.Expiration)
	}
	again := b.ask(`SELECT * FROM tasktable.schedule('{"type": "TEST"}', '2100-01-01Z', 'one', ` + intervals + `)`)
	if again.Outcome != "unchanged" {
		t.Errorf("the same again is %s", again.Outcome)
	}
}
