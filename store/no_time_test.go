package store_test

import (
	"testing"
)

// A call without a time means the same in SQL as in Go, whether the argument is left out, the key is absent,
// or either is null.
func TestSQLWithoutATimeMeansTheSameAsInGo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const body = `'{"type": "TEST", "n": 1}'`
	for name, sql := range map[string]string{
		"left out": `SELECT * FROM tasktable.schedule(` + body + `, id => 'one')`,
		"null":     `SELECT * FROM tasktable.schedule(` + body + `, NULL, 'one', if_finished => NULL)`,
		"absent, many": `SELECT id, revision, outcome
			FROM tasktable.schedule_many('[{"id": "one", "payload": {"type": "TEST", "n": 1}}]')`,
		"null, many": `SELECT id, revision, outcome
			FROM tasktable.schedule_many('[{"id": "one", "payload": {"type": "TEST", "n": 1}, "scheduled_at": null}]')`,
		"absent, in sync": `SELECT id, revision, outcome
			FROM tasktable.sync('event:1', '[{"id": "one", "payload": {"type": "TEST", "n": 1}}]')`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			from := b.Now()
			if got := b.ask(sql); got.Outcome != "created" {
				t.Errorf("a new one: %s", pretty(got))
			}
			if at := b.Get("one").ScheduledAt; at.Before(from) || at.After(b.Now()) {
				t.Errorf("it is due at %s, not at once", at)
			}
			before := b.state("one")
			if got := b.ask(sql); got.Outcome != "unchanged" {
				t.Errorf("one that waits: %s", pretty(got))
			}
			same(b, "one that waits", b.state("one"), before)
			b.finish("one")
			before = b.state("one")
			if got := b.ask(sql); got.Outcome != "finished" {
				t.Errorf("a finished one: %s", pretty(got))
			}
			same(b, "a finished one", b.state("one"), before)
		})
	}
	b.ask(`SELECT * FROM tasktable.schedule(` + body + `, '2100-01-01Z', 'two')`)
	b.finish("two")
	from := b.Now()
	if got := b.ask(
		`SELECT * FROM tasktable.schedule(` + body + `, id => 'two', if_finished => 'rearm')`,
	); got.Outcome != "rearmed" {
		t.Errorf("rearm: %s", pretty(got))
	}
	if at := b.Get("two").ScheduledAt; at.Before(from) || at.After(b.Now()) {
		t.Errorf("rearm: it is due at %s, not at once", at)
	}
}
