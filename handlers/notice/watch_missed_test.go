package notice_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers/notice"
	"github.com/tasktable/tasktable/handlers/notice/rules"
	"github.com/tasktable/tasktable/store"
)

// forks makes the occurrence of a fire as the leader does, at a later time. With a reason the fire is skipped.
func (b *bench) forks(made time.Time, skip string, fires ...time.Time) {
	b.Helper()
	for _, fire := range fires {
		b.rows(`SELECT set_config('tasktable_change.context', 'engine', true)`)
		b.rows(`SELECT tasktable.fork_occurrence('nightly', $1, nullif($2, ''))`, fire, skip)
		b.rows(`SELECT set_config('tasktable_change.context', '', true)`)
		b.made(made, fire)
	}
}

// made sets when the occurrence of a fire was made.
func (b *bench) made(at, fire time.Time) {
	b.Helper()
	if got := b.rows(`UPDATE tasktable.scheduled_tasks SET created_at = $1 WHERE id = 'nightly@' || $2
		RETURNING 1`, at, fire.Format(time.RFC3339)); len(got) != 1 {
		b.Fatalf("there is no occurrence of %s", fire)
	}
}

// paused is a pause of two hours, which ends half an hour before nine.
func (b *bench) paused(scope, name string) {
	b.Helper()
	b.rows(`INSERT INTO tasktable.pauses (scope, name, paused_at, ends_at) VALUES ($1, $2, $3, $4)`, scope, name,
		nine.Add(-150*time.Minute), nine.Add(-30*time.Minute))
}

// resumed is a resume of the recurring task itself, half an hour before nine.
func (b *bench) resumed() {
	b.Helper()
	b.rows(`INSERT INTO tasktable.scheduled_task_changes (revision, task_id, verb, outcome, changed_at, changed_by, old,
		new) VALUES (nextval('tasktable.task_numbers'), 'nightly', 'resume', 'queued', $1, 'ann', '{"status": "PAUSED"}',
		'{"status": "QUEUED"}')`, nine.Add(-30*time.Minute))
}

// Fires that the leader has forked late were missed, unless somebody wished it so. The watch looks at 09:00:30, and the
// leader has forked at 09:00.
func TestTheWatchTellsFiresThatCameLate(t *testing.T) {
	t.Parallel()
	seven, eight := nine.Add(-2*time.Hour), nine.Add(-time.Hour)
	late := func(b *bench) { b.forks(nine, "", seven) }
	const (
		skipped     = "missed, and catch_up runs only the latest"
		sevenAtNine = "its fire of 2035-05-01 07:00:00 UTC happened at 2035-05-01 09:00:00 UTC"
		lateAtNine  = "its fire of 2035-05-01 08:40:00 UTC happened at 2035-05-01 09:00:00 UTC"
		both        = "its fires of 2035-05-01 07:00:00 UTC to 2035-05-01 08:00:00 UTC"
	)
	for name, c := range map[string]struct {
		happened func(b *bench)
		rule     rules.Rule
		told     string
	}{
		"latest, one fire": {happened: late, told: sevenAtNine},
		"latest, two fires": {happened: func(b *bench) { b.forks(nine, skipped, seven); b.forks(nine, "", eight) },
			told: both + " happened at 2035-05-01 09:00:00 UTC, and some were skipped"},
		"latest, and that one in time": {
			happened: func(b *bench) { b.forks(nine, skipped, seven); b.forks(nine, "", nine) },
			told:     "its fire of 2035-05-01 07:00:00 UTC was skipped at 2035-05-01 09:00:00 UTC",
		},
		"none": {happened: func(b *bench) { b.forks(nine, "missed, and catch_up is none", seven, eight) },
			told: both + " were skipped at 2035-05-01 09:00:00 UTC"},
		"all": {happened: func(b *bench) { b.forks(nine, "", seven, eight) },
			told: both + " happened at 2035-05-01 09:00:00 UTC"},
		"the occurrence has run": {happened: func(b *bench) { late(b); b.run(nine) }, told: sevenAtNine},
		"the recurring task has ended": {
			happened: func(b *bench) {
				b.forks(nine, "", seven)
				b.rows(`UPDATE tasktable.scheduled_tasks SET status = 'COMPLETED' WHERE id = 'nightly'`)
			},
			told: sevenAtNine,
		},
		"an edit while the fire was owed": {
			happened: func(b *bench) {
				b.rows(`UPDATE tasktable.scheduled_tasks SET cron = '@hourly' WHERE id = 'nightly'`)
				b.forks(nine, "", seven)
			},
			told: sevenAtNine,
		},
		"after a pause of its type": {
			happened: func(b *bench) { b.paused("type", "FAILING"); b.forks(nine, "", nine.Add(-20*time.Minute)) },
			told:     lateAtNine,
		},
		"after its own pause": {
			happened: func(b *bench) { b.resumed(); b.forks(nine, "", nine.Add(-20*time.Minute)) },
			told:     lateAtNine,
		},
		"a pause of another type": {happened: func(b *bench) { b.paused("type", "OTHER"); late(b) },
			told: sevenAtNine},
		"a pause of its type":   {happened: func(b *bench) { b.paused("type", "FAILING"); late(b) }},
		"a pause of its queue":  {happened: func(b *bench) { b.paused("queue", "default"); late(b) }},
		"a pause of everything": {happened: func(b *bench) { b.paused("all", ""); late(b) }},
		"its own pause":         {happened: func(b *bench) { b.resumed(); late(b) }},
		"in time":               {happened: func(b *bench) { b.forks(nine, "", nine.Add(-5*time.Minute)) }},
		"in time, and skipped":  {happened: func(b *bench) { b.forks(nine, "an earlier one", nine.Add(-time.Minute)) }},
		"long ago":              {happened: func(b *bench) { b.forks(nine.Add(-10*time.Minute), "", seven) }},
		"put back by hand":      {happened: func(b *bench) { b.forks(nine, "", nine); b.putBack(seven) }},
		"a backfill":            {happened: func(b *bench) { b.backfilled(past) }},
		"a backfill of a deleted occurrence": {happened: func(b *bench) {
			b.forks(past, "", past)
			b.rows(`SELECT tasktable.delete('nightly@2020-05-01T07:00:00Z')`)
			b.backfilled(past)
		}},
		"run now":        {happened: func(b *bench) { b.rows(`SELECT tasktable.run_now('nightly')`) }},
		"another type":   {happened: late, rule: rules.Rule{Types: []string{"OTHER"}}},
		"another queue":  {happened: late, rule: rules.Rule{Queues: []string{"mail"}}},
		"another tenant": {happened: late, rule: rules.Rule{Tenants: []string{"acme"}}},
		"another entity": {happened: late, rule: rules.Rule{Entities: []string{"event:1"}}},
		"another event":  {happened: late, rule: rules.Rule{Events: []rules.Event{rules.Late}, Queues: []string{"mail"}}},
		"a longer time":  {happened: late, rule: rules.Rule{After: 2 * time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, newReceiver(t).target(notice.KindNtfy))
			c.rule.Name = "watch"
			if c.rule.Events == nil {
				c.rule.Events = []rules.Event{rules.Missed}
			}
			b.rule(c.rule, "")
			b.nightly()
			c.happened(b)
			b.watched(nine.Add(30 * time.Second))
			var want []string
			if c.told != "" {
				want = []string{"watch missed nightly: " + c.told}
			}
			b.want("causes", b.rows(causesSQL), want...)
		})
	}
}

// past is a fire that a backfill can make.
var past = time.Date(2020, 5, 1, 7, 0, 0, 0, time.UTC)

// nightly schedules a recurring task, whose next fire is far away.
func (b *bench) nightly() {
	b.Helper()
	b.schedule(store.Task{ID: "nightly", At: past.Add(-time.Hour), Payload: store.JSON(`{"type": "FAILING"}`),
		Recurrence: &store.Recurrence{Cron: "0 * * * *"}})
	b.rows(`UPDATE tasktable.scheduled_tasks SET next_attempt_at = $1, planned_revision = revision WHERE id = 'nightly'`,
		nine.Add(24*time.Hour))
}

// putBack moves the time of all occurrences.
func (b *bench) putBack(fire time.Time) {
	b.Helper()
	b.rows(`UPDATE tasktable.scheduled_tasks SET scheduled_at = $1 WHERE parent_id = 'nightly'`, fire)
}

// backfilled makes the occurrence of a fire of the past by hand.
func (b *bench) backfilled(fire time.Time) {
	b.Helper()
	made, err := tasks.Backfill(b.Context(), b.tx, "nightly", fire.Add(-time.Minute), fire, 1)
	if err != nil || made != 1 {
		b.Fatalf("backfilled %d: %v", made, err)
	}
	b.made(nine, fire)
}

// A fire that came late is told once, also if it was told before it came. It has recovered a look later.
func TestTheWatchTellsAMissedFireOnce(t *testing.T) {
	t.Parallel()
	rule := rules.Rule{Name: "watch", Events: []rules.Event{rules.Missed, rules.Recovered}}
	b, r := benchWith(t, notice.KindNtfy, rule)
	b.nightly()
	at := func(minutes int) time.Time { return nine.Add(time.Duration(minutes) * time.Minute) }
	looks := func(from, to int) {
		for minutes := from; minutes < to; minutes++ {
			b.watched(at(minutes).Add(30 * time.Second))
		}
	}
	looks(0, 2)
	b.forks(at(2), "", nine.Add(-time.Hour))
	looks(2, 14)
	want := []string{
		"watch missed nightly: its fire of 2035-05-01 08:00:00 UTC happened at 2035-05-01 09:02:00 UTC",
		"watch recovered nightly: was missed since 2035-05-01 09:02:30 UTC",
	}
	b.want("forked before a look", b.rows(causesSQL), want...)

	due := `UPDATE tasktable.scheduled_tasks SET next_attempt_at = $1 WHERE id = 'nightly'`
	b.rows(due, at(14))
	looks(14, 30)
	b.forks(at(30), "", at(14), at(20))
	b.rows(due, at(1000))
	looks(30, 45)
	want = append(want, "watch missed nightly: its fire of 2035-05-01 09:14:00 UTC has not happened",
		"watch recovered nightly: was missed since 2035-05-01 09:19:30 UTC")
	b.want("forked after a look", b.rows(causesSQL), want...)

	b.forks(at(60), "missed", at(50), at(51))
	looks(60, 75)
	want = append(want, "watch missed nightly: its fires of 2035-05-01 09:50:00 UTC to 2035-05-01 09:51:00 UTC were "+
		"skipped at 2035-05-01 10:00:00 UTC", "watch recovered nightly: was missed since 2035-05-01 10:00:30 UTC")
	b.want("another one", b.rows(causesSQL), want...)
	b.want("episodes", b.rows(episodesSQL))

	b.rows(`DELETE FROM tasktable.scheduled_tasks WHERE id = 'nightly'`)
	b.run(at(100))
	if !slices.ContainsFunc(r.got(), func(got request) bool {
		return strings.Contains(got.body, "09:02:30 nightly (FAILING) missed fires: its fire of 2035-05-01 08:00:00 UTC happened "+
			"at 2035-05-01 09:02:00 UTC\ntasktable why nightly\n")
	}) {
		t.Errorf("got %+v", r.got())
	}
}
