//go:build unix

package scheduled

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
)

// ticksVariable says how many leaders TestLeaderKilledAtTicks kills: 5 unless set, to be quick.
const ticksVariable = "TASKTABLE_TEST_TICKS"

// around is how far from the tick a kill may be.
const around = 50 * time.Millisecond

// Whenever the leader is killed about a tick, before, while or after it forks what fires then: each tick has exactly
// one occurrence of each task, which is completed once.
func TestLeaderKilledAtTicks(t *testing.T) {
	kills := 5
	if text := os.Getenv(ticksVariable); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	f := newField(t)
	processes := []*process{f.start(nil), f.start(nil)}
	all := store.Recurrence{
		Cron: eachSecond, CatchUp: store.CatchUpAll, CatchUpLimit: 1000, Overlap: store.OverlapAllow,
	}
	skip := store.Recurrence{Cron: eachSecond, CatchUp: store.CatchUpLatest, Overlap: store.OverlapSkip}
	for _, task := range []store.Task{
		{ID: "quick", Payload: quick{Name: "quick"}, Recurrence: &all},
		{ID: "slow", Payload: quick{Name: "slow", Millis: 30}, Recurrence: &all, Priority: 50},
		{ID: "tx", Payload: effectTx{"tx"}, Recurrence: &all},
		{ID: "sql", Payload: effectSQL{"sql"}, Recurrence: &all, Jitter: 100 * time.Millisecond},
		{ID: "skip", Payload: effectTx{"skip"}, Recurrence: &skip},
	} {
		task.MaxAttempts = 1000 // each killed leader takes one
		enginetest.Schedule(t, f.pool, task)
	}
	f.until(patience, "all have fired", `SELECT bool_and(occurrence_count > 0) FROM tasktable.recurring_tasks`)

	// The instants of the server's clock.
	ahead := time.Until(ask[time.Time](f, `SELECT clock_timestamp()`))
	var killed []time.Time // when
	for range kills {
		leader := f.leaderOf(processes)
		tick := time.Now().Add(ahead).Add(around).Truncate(time.Second).Add(time.Second)
		timer := time.NewTimer(time.Until(tick.Add(rand.N(2*around) - around - ahead)))
		<-timer.C
		at := time.Now().Add(ahead)
		processes[leader].kill()
		killed = append(killed, at)
		// The next is the other, at its next look; else mostly the new one, which looks as it begins.
		if rand.N(2) == 0 {
			f.leaderOf(slices.Delete(slices.Clone(processes), leader, leader+1))
		}
		processes[leader] = f.start(nil)
	}
	f.until(
		20*time.Second, "all have fired since", `SELECT bool_and(last_fire > $1) FROM tasktable.recurring_tasks`,
		killed[len(killed)-1],
	)
	for _, id := range []string{"quick", "slow", "tx", "sql", "skip"} {
		if _, err := enginetest.Tasks.Cancel(t.Context(), f.pool, id); err != nil {
			t.Fatal(err)
		}
	}
	f.until(60*time.Second, "all occurrences have ended", `SELECT bool_and(finished_at IS NOT NULL AND fence IS NULL)
		FROM tasktable.scheduled_tasks`)
	f.judgeTicks(killed)
}

// leaderOf waits until one of the processes leads, and returns which.
func (f *field) leaderOf(processes []*process) (leader int) {
	f.t.Helper()
	enginetest.Eventually(f.t, patience, "one of the processes leads", func() bool {
		_, pid := f.leading()
		leader = slices.IndexFunc(processes, func(p *process) bool { return p.pid == pid })
		return leader >= 0
	})
	return leader
}

const killedSQL = `
SELECT count(*) FROM (
	SELECT k.at, t.scheduled_at AS tick, t.created_at AS forked
	FROM unnest($1::timestamptz[]) AS k (at) JOIN tasktable.scheduled_tasks AS t ON t.parent_id = 'quick'
		AND t.scheduled_at = date_trunc('second', k.at + interval '500 ms')
) AS k WHERE `

func (f *field) judgeTicks(killed []time.Time) {
	t := f.t
	t.Helper()
	t.Logf("%d kills, %d fires, %d occurrences skipped; outcomes: %s", len(killed),
		f.count(`SELECT count(*) FROM tasktable.scheduled_tasks WHERE parent_id IS NOT NULL`),
		f.count(`SELECT count(*) FROM tasktable.scheduled_tasks WHERE status = 'SKIPPED'`),
		ask[string](f, `SELECT string_agg(outcome || ' ' || n, ', ') FROM
		(SELECT outcome, count(*) AS n FROM tasktable.scheduled_task_executions GROUP BY outcome) AS o`))
	t.Logf("killed before the tick: %d; after it, and before it was forked: %d; after that: %d",
		f.count(killedSQL+`at < tick`, killed), f.count(killedSQL+`at >= tick AND at < forked`, killed),
		f.count(killedSQL+`at >= forked`, killed))
	t.Log("forked after the fire, at the latest: ", ask[string](f, `SELECT max(created_at - scheduled_at)::text
		FROM tasktable.scheduled_tasks WHERE parent_id IS NOT NULL`),
		"; started, at the latest: ", ask[string](f, `SELECT max(started_at - due_at)::text
			FROM tasktable.scheduled_task_executions WHERE outcome = 'COMPLETED'`))
	f.never("a second between the first fire and the last has not one occurrence", `
		SELECT count(*) FROM (SELECT id, scheduled_at, started_at FROM tasktable.scheduled_tasks
			WHERE cron IS NOT NULL) AS p
		CROSS JOIN LATERAL generate_series(date_trunc('second', p.scheduled_at) + interval '1 second', p.started_at,
			interval '1 second') AS fire
		WHERE (SELECT count(*) FROM tasktable.scheduled_tasks AS t WHERE t.parent_id = p.id
			AND t.scheduled_at = fire) <> 1`)
	f.never("an occurrence is of no second between the first fire and the last", `
		SELECT count(*) FROM tasktable.scheduled_tasks AS t JOIN tasktable.scheduled_tasks AS p ON p.id = t.parent_id
		WHERE t.scheduled_at <> date_trunc('second', t.scheduled_at) OR t.scheduled_at <= p.scheduled_at
			OR t.scheduled_at > p.started_at`)
	f.never(
		"an occurrence was neither completed nor skipped for its overlap",
		`SELECT count(*) FROM tasktable.scheduled_tasks WHERE parent_id IS NOT NULL
		AND NOT (status = 'COMPLETED' OR parent_id = 'skip' AND status = 'SKIPPED')`,
	)
	f.never(
		"a task's count is another than that of its occurrences",
		`SELECT count(*) FROM tasktable.scheduled_tasks AS p WHERE p.cron IS NOT NULL AND
		p.occurrence_count <> (SELECT count(*) FROM tasktable.scheduled_tasks AS t
		WHERE t.parent_id = p.id AND t.status = 'COMPLETED')`,
	)
	f.never("an occurrence is recorded as completed not once", `SELECT count(*) FROM tasktable.scheduled_tasks AS t
		WHERE t.status = 'COMPLETED' AND
		(SELECT count(*) FROM tasktable.scheduled_task_executions AS e WHERE e.task_id = t.id
			AND e.outcome = 'COMPLETED') <> 1`)
	f.never("an occurrence has not exactly one effect", `SELECT count(*)
		FROM (SELECT t.id FROM tasktable.scheduled_tasks AS t
		LEFT JOIN effects AS x ON x.task_id = t.id WHERE t.type LIKE 'EFFECT%' AND t.status = 'COMPLETED' GROUP BY t.id
			HAVING count(x.task_id) <> 1) AS wrong`)
	f.never("an occurrence began before its time", `SELECT count(*) FROM tasktable.scheduled_task_executions
		WHERE started_at < due_at`)
}
