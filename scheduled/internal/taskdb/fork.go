package taskdb

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/sanitize"
)

// Fork fires the due recurring tasks of the given lanes, in q's transaction. It makes at most `most` occurrences, and
// plans the next fires. It returns how many tasks it looked at. If a task's expression cannot be read, Fork fails the
// task, which then does not fire until somebody edits it. now nil means the database's time.
func (s Queries) Fork(
	ctx context.Context, q pg.DB, now *time.Time, lanes []Lane, most int, aside ...string,
) (looked int, err error) {
	picked, err := s.PickFires(ctx, q, now, lanes, most, aside...)
	if err != nil {
		return 0, err
	}
	due, err := s.DueFires(ctx, q, now, picked, most)
	if err != nil {
		return 0, err
	}
	done, err := s.WriteFires(ctx, q, now, due)
	return done.Looked, err
}

// unreadable is a recurring task whose cron expression or time zone cannot be read. Fork has failed it.
type unreadable struct {
	LaneHead
	Error string
}

// ForkResult is the result of forking.
type ForkResult struct {
	Looked int          // how many tasks were looked at
	Failed []unreadable // the tasks whose expression cannot be read
	Busy   []string     // the tasks that wait, because others have locked an occurrence that they cancel
}

// The rows are found by their ids alone, because any other condition could make Postgres step over the dead entries of
// an index.
const lockRecurringSQL = `
SELECT t.id::text AS id, t.revision, greatest(t.next_attempt_at, '1970-01-01'::timestamptz) AS next_fire
FROM tasktable.scheduled_tasks AS t
WHERE t.id = ANY ($1::text[])
ORDER BY t.id::text COLLATE "C" FOR NO KEY UPDATE SKIP LOCKED`

// WriteFires makes the occurrences of due fires, and plans the next fires, in q's transaction. It leaves out the tasks
// that somebody has changed or locked since DueFires has read them. It must run in the engine's context.
func (s Queries) WriteFires(ctx context.Context, q pg.DB, now *time.Time, due DueFires) (done ForkResult, err error) {
	if len(due.tasks) == 0 {
		return done, nil
	}
	tasks, err := s.unchanged(ctx, q, due.tasks)
	if err != nil {
		return done, err
	}
	if tasks, err = s.withTheirCalendars(ctx, q, due, tasks); err != nil {
		return done, err
	}
	live, busy, err := s.live(ctx, q, now, tasks)
	if err != nil {
		return done, err
	}
	var w fireWrites
	for _, one := range tasks {
		switch id := one.Task.ID; {
		case busy[id]:
			done.Busy = append(done.Busy, id)
			continue
		case one.err != nil:
			failed := unreadable{LaneHead{id, one.Task.Revision, one.Task.Type}, sanitize.Text(one.err.Error())}
			if err := s.FailHead(ctx, q, failed.LaneHead, failed.Error); err != nil {
				return done, err
			}
			done.Failed = append(done.Failed, failed)
		default:
			w.add(one, live[id], due.most)
		}
		done.Looked++
	}
	return done, s.write(ctx, q, &w)
}

// unchanged locks the tasks that nobody has changed or locked since they were read.
func (s Queries) unchanged(ctx context.Context, q pg.DB, tasks []dueTask) ([]dueTask, error) {
	type locked struct {
		ID       string
		Revision int64
		NextFire time.Time
	}
	found, err := pg.CollectRows[locked](ctx, q, "lock recurring tasks", s.Schema.SQL(lockRecurringSQL),
		column(tasks, func(t *dueTask) string { return t.Task.ID }))
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(tasks), func(one dueTask) bool {
		return !slices.ContainsFunc(found, func(row locked) bool {
			return row.ID == one.Task.ID && row.Revision == one.Task.Revision && row.NextFire.Equal(one.Task.NextFire)
		})
	}), nil
}

// An occurrence has not ended while its status is not final. It has also not ended while a claim holds it, because a
// cancelled handler may still run. An occurrence that somebody has put off does not count as earlier until its time
// comes. If the fires of a task cancel earlier occurrences, the statement locks all of these, and says which it could
// not lock. Otherwise the earliest occurrence is enough, and Postgres stops there. Behind an occurrence that stays,
// because it is paused, there may be a row for each second of a week.
const liveOccurrencesSQL = `
SELECT parent.id AS parent, t.id, t.scheduled_at, parent.cancels AND free.id IS NULL AS busy
FROM unnest($1::text[], $2::timestamptz[], $4::boolean[]) AS parent (id, open_occurrences_from, cancels)
CROSS JOIN LATERAL (
    SELECT t.id::text AS id, t.scheduled_at::timestamptz AS scheduled_at FROM tasktable.scheduled_tasks AS t
    WHERE t.parent_id = parent.id AND t.scheduled_at >= coalesce(parent.open_occurrences_from, '-infinity')
        AND (t.fence IS NOT NULL OR t.finished_at IS NULL
        AND t.scheduled_at <= coalesce($3::timestamptz, clock_timestamp()))
    ORDER BY t.scheduled_at
    LIMIT CASE WHEN NOT parent.cancels THEN 1 END
) AS t
LEFT JOIN LATERAL (
    SELECT o.id FROM tasktable.scheduled_tasks AS o
    WHERE parent.cancels AND o.id = t.id FOR NO KEY UPDATE SKIP LOCKED
) AS free ON true
ORDER BY t.scheduled_at, t.id`

// occurrence is an occurrence that has not ended.
type occurrence struct {
	Parent      string
	ID          string
	ScheduledAt time.Time
	Busy        bool // it may have to be cancelled, and another transaction has locked it
}

// live reads the occurrences that have not ended, by task. It returns in busy the tasks with an occurrence that is
// busy. These tasks are left to the next pass, because a wait for the lock would hold up all the others.
func (s Queries) live(
	ctx context.Context, q pg.DB, now *time.Time, tasks []dueTask,
) (live map[string][]occurrence, busy map[string]bool, err error) {
	found, err := pg.CollectRows[occurrence](ctx, q, "read occurrences", s.Schema.SQL(liveOccurrencesSQL),
		column(tasks, func(t *dueTask) string { return t.Task.ID }),
		column(tasks, func(t *dueTask) *time.Time { return t.Task.OpenOccurrencesFrom }), now,
		column(tasks, (*dueTask).cancels))
	live, busy = map[string][]occurrence{}, map[string]bool{}
	for _, one := range found {
		live[one.Parent] = append(live[one.Parent], one)
		busy[one.Parent] = busy[one.Parent] || one.Busy
	}
	return live, busy, err
}

// fireWrites is what fires write.
type fireWrites struct {
	cancelled []cancelled
	forked    []forked
	advanced  []Advanced
	moved     []moved
}

// cancelled is an earlier occurrence that a fire cancels.
type cancelled struct{ id, by string }

// forked is an occurrence, or the row of a fire that does not run.
type forked struct {
	parent string
	fire   time.Time
	skip   string
}

// Advanced is a recurring task with its next fire, or one that has ended.
type Advanced struct {
	ID       string
	Next     *time.Time
	Last     *time.Time
	Count    int
	Ended    string     // why there is no next fire
	OpenFrom *time.Time // all earlier occurrences have ended
	// Wall and ZoneData are stored beside the next fire, so that the fire can be planned anew when new zone data change
	// the zone's clocks. @every does not look at clocks, and has none.
	Wall     *time.Time
	ZoneData *string
	// Day is the first day whose fires have not come, if calendars may move them.
	Day *time.Time
	// Rests tells that Next is not a fire, but the time at which the leader looks again whether calendars leave a day
	// in.
	Rests bool
}

// cancels reports whether a fire of the task cancels earlier occurrences.
func (d *dueTask) cancels() bool { return d.Task.Overlap == "cancel_running" && !d.Task.GoesOn() }

// add decides about the fires of one task. It makes at most `most` occurrences.
func (w *fireWrites) add(due dueTask, live []occurrence, most int) {
	task, blocked := due.Task, ""
	if len(live) > 0 && task.Overlap == "skip" {
		blocked = "an earlier occurrence has not ended: " + live[len(live)-1].ID
	}
	f := due.Decide(blocked, most)
	if f.Runs && due.cancels() {
		for _, one := range live {
			w.cancelled = append(w.cancelled, cancelled{one.ID, "task " + task.ID})
		}
	}
	from := task.Now
	// An occurrence that was put off while it runs lies after from, and does not count.
	if len(live) > 0 && live[0].ScheduledAt.Before(from) {
		from = live[0].ScheduledAt
	}
	for _, one := range f.Fires {
		w.forked = append(w.forked, forked{task.ID, one.At, one.Skip})
		if one.Skip == "" && one.At.Before(from) {
			from = one.At
		}
	}
	next := Advanced{ID: task.ID, Next: orNull(&f.Next), Last: f.Last, Count: f.Count, Ended: f.Ended, OpenFrom: &from}
	if wall := due.rule.Wall(f.Next); !wall.IsZero() && !f.Rests {
		next.Wall, next.ZoneData = &wall, &due.fingerprint
	}
	next.Day = f.Undecided(task, due.rule)
	if next.Rests = f.Rests; f.Rests {
		next.Ended = restsMessage
	}
	w.advanced = append(w.advanced, next)
	w.addMoved(due, f)
}

const cancelOccurrencesSQL = `
SELECT count(tasktable.cancel(one.id, one.by)) FROM (
    SELECT * FROM unnest($1::text[], $2::text[]) AS one (id, by) ORDER BY one.id || '~' COLLATE "C" OFFSET 0
) AS one`

const forkSQL = `
SELECT count(tasktable.fork_occurrence(one.parent, one.fire, nullif(one.skip, ''), NULL, false))
FROM unnest($1::text[], $2::timestamptz[], $3::text[]) AS one (parent, fire, skip)`

// restsMessage is the message of a task while it rests.
const restsMessage = "no fire within 20 years, because of its calendars"

// advanceSQL writes no column whose edit would draw a revision. A task without a next fire has ended. A task that rests
// is not planned, so that the time at which the leader looks again is no fire.
const advanceSQL = `
UPDATE tasktable.scheduled_tasks AS t
SET next_attempt_at = one.next, planned_revision = CASE WHEN NOT one.rests THEN t.revision END,
    started_at = one.last, occurrence_count = one.count,
    open_occurrences_from = one.open_occurrences_from, planned_wall = one.wall, planned_zone_data = one.zone_data,
    planned_day = one.day::date,
    status = CASE WHEN one.next IS NULL THEN 'COMPLETED' ELSE t.status END,
    finished_at = CASE WHEN one.next IS NULL THEN clock_timestamp() END,
    last_status_update = CASE WHEN one.next IS NULL THEN clock_timestamp() ELSE t.last_status_update END,
    message = coalesce(nullif(one.ended, ''), nullif(t.message, $11::text))
FROM unnest($1::text[], $2::timestamptz[], $3::timestamptz[], $4::int[], $5::text[], $6::timestamptz[],
    $7::timestamp[], $8::text[], $9::timestamp[], $10::boolean[])
    AS one (id, next, last, count, ended, open_occurrences_from, wall, zone_data, day, rests)
WHERE t.id = ANY (ARRAY[one.id])`

// Advance plans the next fires. It must run in the engine's context, so that the triggers do not take the status of a
// task that has ended for somebody's edit.
func (s Queries) Advance(ctx context.Context, q pg.DB, tasks []Advanced) error {
	_, err := q.Exec(ctx, s.Schema.SQL(advanceSQL),
		column(tasks, func(a *Advanced) string { return a.ID }),
		column(tasks, func(a *Advanced) *time.Time { return a.Next }),
		column(tasks, func(a *Advanced) *time.Time { return a.Last }),
		column(tasks, func(a *Advanced) int { return a.Count }),
		column(tasks, func(a *Advanced) string { return a.Ended }),
		column(tasks, func(a *Advanced) *time.Time { return a.OpenFrom }),
		column(tasks, func(a *Advanced) *time.Time { return a.Wall }),
		column(tasks, func(a *Advanced) *string { return a.ZoneData }),
		column(tasks, func(a *Advanced) *time.Time { return a.Day }),
		column(tasks, func(a *Advanced) bool { return a.Rests }), restsMessage)
	return pg.Annotate(err, "plan the next fires")
}

func (s Queries) write(ctx context.Context, q pg.DB, w *fireWrites) error {
	if n := len(w.cancelled); n > 0 {
		if _, err := q.Exec(ctx, s.Schema.SQL(cancelOccurrencesSQL),
			column(w.cancelled, func(c *cancelled) string { return c.id }),
			column(w.cancelled, func(c *cancelled) string { return c.by })); err != nil {
			return fmt.Errorf("cancel %d earlier occurrences: %w", n, err)
		}
	}
	if n := len(w.forked); n > 0 {
		if _, err := q.Exec(ctx, s.Schema.SQL(forkSQL),
			column(w.forked, func(f *forked) string { return f.parent }),
			column(w.forked, func(f *forked) time.Time { return f.fire }),
			column(w.forked, func(f *forked) string { return f.skip })); err != nil {
			return fmt.Errorf("fork %d occurrences: %w", n, err)
		}
	}
	if err := s.noteMoved(ctx, q, w.moved); err != nil {
		return err
	}
	return s.Advance(ctx, q, w.advanced)
}
