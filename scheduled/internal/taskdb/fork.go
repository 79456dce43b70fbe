package taskdb

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/fireplan"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/sanitize"
	"github.com/tasktable/tasktable/store/recurrence"
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
	ids := make([]string, len(due.tasks))
	for i, one := range due.tasks {
		ids[i] = one.Task.ID
	}
	type locked struct {
		ID       string
		Revision int64
		NextFire time.Time
	}
	found, err := pg.CollectRows[locked](ctx, q, "lock recurring tasks", s.Schema.SQL(lockRecurringSQL), ids)
	if err != nil {
		return done, err
	}
	still := map[string]locked{}
	for _, one := range found {
		still[one.ID] = one
	}
	tasks := slices.DeleteFunc(slices.Clone(due.tasks), func(one dueTask) bool {
		row, found := still[one.Task.ID]
		return !found || row.Revision != one.Task.Revision || !row.NextFire.Equal(one.Task.NextFire)
	})
	live, err := s.live(ctx, q, now, tasks)
	if err != nil {
		return done, err
	}
	busy, err := s.lockLive(ctx, q, tasks, live)
	if err != nil {
		return done, err
	}
	var c ForkColumns
	for _, one := range tasks {
		if busy[one.Task.ID] {
			done.Busy = append(done.Busy, one.Task.ID)
			continue
		}
		c.add(one, live[one.Task.ID], due.most)
		done.Looked++
	}
	done.Failed = c.failed
	return done, s.WriteForks(ctx, q, &c)
}

// An occurrence has not ended while its status is not final. It has also not ended while a claim holds it, because a
// cancelled handler may still run. An occurrence that somebody has put off does not count as earlier until its time
// comes. Unless all are to be cancelled, the earliest occurrence is enough, and Postgres stops there. Behind an
// occurrence that stays, because it is paused, there may be a row for each second of a week.
const liveOccurrencesSQL = `
SELECT parent.id AS parent, t.id, t.scheduled_at
FROM unnest($1::text[], $2::timestamptz[], $4::int[]) AS parent (id, open_occurrences_from, most)
CROSS JOIN LATERAL (
    SELECT t.id::text AS id, t.scheduled_at::timestamptz AS scheduled_at FROM tasktable.scheduled_tasks AS t
    WHERE t.parent_id = parent.id AND t.scheduled_at >= coalesce(parent.open_occurrences_from, '-infinity')
        AND (t.fence IS NOT NULL OR t.finished_at IS NULL
        AND t.scheduled_at <= coalesce($3::timestamptz, clock_timestamp()))
    ORDER BY t.scheduled_at
    LIMIT parent.most
) AS t
ORDER BY t.scheduled_at, t.id`

// occurrence is an occurrence that has not ended.
type occurrence struct {
	Parent      string
	ID          string
	ScheduledAt time.Time
}

// live reads the occurrences that have not ended. If a task's fires cancel earlier occurrences, it reads all of these,
// otherwise only the earliest.
func (s Queries) live(
	ctx context.Context, q pg.DB, now *time.Time, tasks []dueTask,
) (map[string][]occurrence, error) {
	ids, from, most := make([]string, len(tasks)), make([]*time.Time, len(tasks)), make([]*int, len(tasks))
	for i, one := range tasks {
		ids[i], from[i] = one.Task.ID, one.Task.OpenOccurrencesFrom
		if one.Task.Overlap != "cancel_running" || one.Task.GoesOn() {
			most[i] = new(1)
		}
	}
	found, err := pg.CollectRows[occurrence](ctx, q, "read occurrences",
		s.Schema.SQL(liveOccurrencesSQL), ids, from, now, most)
	if err != nil {
		return nil, err
	}
	live := map[string][]occurrence{}
	for _, one := range found {
		live[one.Parent] = append(live[one.Parent], one)
	}
	return live, nil
}

// lockLive locks the occurrences that a fire may cancel. It returns in busy the tasks that have an occurrence which
// another transaction has locked. These tasks are left to the next pass, because a wait for the lock would hold up
// all the others.
func (s Queries) lockLive(
	ctx context.Context, q pg.DB, tasks []dueTask, live map[string][]occurrence,
) (busy map[string]bool, err error) {
	parents := map[string]string{}
	for _, due := range tasks {
		if due.Task.Overlap == "cancel_running" && !due.Task.GoesOn() {
			for _, one := range live[due.Task.ID] {
				parents[one.ID] = due.Task.ID
			}
		}
	}
	if len(parents) == 0 {
		return nil, nil
	}
	locked, err := pg.CollectColumn[string](ctx, q, "lock earlier occurrences",
		s.Schema.SQL(lockInOrderSQL), slices.Collect(maps.Keys(parents)))
	if err != nil {
		return nil, err
	}
	busy = map[string]bool{}
	for _, id := range locked {
		busy[parents[id]] = true
	}
	return busy, nil
}

// ForkColumns has the rows to be written, as one list for each column, because unnest takes them so.
type ForkColumns struct {
	cancelled, cancelledBy []string

	parents, skips []string
	fires          []time.Time

	IDs, Messages, Ended   []string
	Nexts, Lasts, LiveFrom []*time.Time
	Counts                 []int
	walls                  []*time.Time
	zoneData               []*string

	failed []unreadable
}

// add decides about the fires of one task. It makes at most `most` occurrences.
func (c *ForkColumns) add(due dueTask, live []occurrence, most int) {
	task := due.Task
	if due.err != nil {
		why := sanitize.Text(due.err.Error())
		c.failed = append(c.failed, unreadable{LaneHead{task.ID, task.Revision, task.Type}, why})
		c.advance(
			task, fireplan.Plan{Ended: why, Count: task.OccurrenceCount, Last: task.LastFire}, "FAILED", nil, plan{},
		)
		return
	}
	blocked := ""
	if len(live) > 0 && task.Overlap == "skip" {
		blocked = "an earlier occurrence has not ended: " + live[len(live)-1].ID
	}
	f := due.Decide(blocked, most)
	if task.Overlap == "cancel_running" && f.Runs && !task.GoesOn() {
		for _, one := range live {
			c.cancelled, c.cancelledBy = append(c.cancelled, one.ID), append(c.cancelledBy, "task "+task.ID)
		}
	}
	from := task.Now
	// An occurrence that was put off while it runs lies after from, and does not count.
	if len(live) > 0 && live[0].ScheduledAt.Before(from) {
		from = live[0].ScheduledAt
	}
	for _, one := range f.Fires {
		c.parents, c.fires, c.skips = append(c.parents, task.ID), append(c.fires, one.At), append(c.skips, one.Skip)
		if one.Skip == "" && one.At.Before(from) {
			from = one.At
		}
	}
	c.advance(task, f, "COMPLETED", &from, planOf(due.rule, f.Next, due.fingerprint))
}

// plan is stored beside the next fire, so that the fire can be planned anew when new zone data change the zone's
// clocks.
type plan struct {
	wall     *time.Time
	zoneData *string
}

func planOf(rule *recurrence.Rule, next time.Time, fingerprint string) plan {
	wall := rule.Wall(next)
	if wall.IsZero() { // @every does not look at clocks
		return plan{}
	}
	return plan{wall: &wall, zoneData: &fingerprint}
}

func (c *ForkColumns) advance(task fireplan.Task, f fireplan.Plan, ended string, liveFrom *time.Time, plan plan) {
	var next *time.Time
	if !f.Next.IsZero() {
		next = &f.Next
	}
	c.IDs, c.Nexts = append(c.IDs, task.ID), append(c.Nexts, next)
	c.Lasts, c.Counts = append(c.Lasts, f.Last), append(c.Counts, f.Count)
	c.Messages, c.Ended, c.LiveFrom = append(c.Messages, f.Ended), append(c.Ended, ended), append(c.LiveFrom, liveFrom)
	c.walls, c.zoneData = append(c.walls, plan.wall), append(c.zoneData, plan.zoneData)
}

const cancelOccurrencesSQL = `
SELECT count(tasktable.cancel(one.id, one.by)) FROM (
    SELECT * FROM unnest($1::text[], $2::text[]) AS one (id, by) ORDER BY one.id || '~' COLLATE "C" OFFSET 0
) AS one`

const forkSQL = `
SELECT count(tasktable.fork_occurrence(one.parent, one.fire, nullif(one.skip, ''), NULL, false))
FROM unnest($1::text[], $2::timestamptz[], $3::text[]) AS one (parent, fire, skip)`

// AdvanceSQL writes no column whose edit would draw a revision. A task without a next fire has ended.
const AdvanceSQL = `
UPDATE tasktable.scheduled_tasks AS t
SET next_attempt_at = one.next, planned_revision = t.revision, started_at = one.last, occurrence_count = one.count,
    open_occurrences_from = coalesce(one.open_occurrences_from, t.open_occurrences_from), planned_wall = one.wall,
    planned_zone_data = one.zone_data,
    status = CASE WHEN one.next IS NULL THEN one.ended ELSE t.status END,
    finished_at = CASE WHEN one.next IS NULL THEN clock_timestamp() END,
    last_status_update = CASE WHEN one.next IS NULL THEN clock_timestamp() ELSE t.last_status_update END,
    message = coalesce(nullif(one.message, ''), t.message)
FROM unnest($1::text[], $2::timestamptz[], $3::timestamptz[], $4::int[], $5::text[], $6::text[], $7::timestamptz[],
    $8::timestamp[], $9::text[]) AS one (id, next, last, count, message, ended, open_occurrences_from, wall, zone_data)
WHERE t.id = ANY (ARRAY[one.id])`

// WriteForks must run in the engine's context, so that the triggers do not take the status of a task that has ended
// for somebody's edit.
func (s Queries) WriteForks(ctx context.Context, q pg.DB, c *ForkColumns) error {
	if len(c.cancelled) > 0 {
		if _, err := q.Exec(ctx, s.Schema.SQL(cancelOccurrencesSQL), c.cancelled, c.cancelledBy); err != nil {
			return fmt.Errorf("cancel %d earlier occurrences: %w", len(c.cancelled), err)
		}
	}
	if len(c.fires) > 0 {
		if _, err := q.Exec(ctx, s.Schema.SQL(forkSQL), c.parents, c.fires, c.skips); err != nil {
			return fmt.Errorf("fork %d occurrences: %w", len(c.fires), err)
		}
	}
	_, err := q.Exec(ctx, s.Schema.SQL(AdvanceSQL), c.IDs, c.Nexts, c.Lasts, c.Counts, c.Messages, c.Ended, c.LiveFrom,
		c.walls, c.zoneData)
	return pg.Annotate(err, "plan the next fires")
}
