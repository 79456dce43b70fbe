package scheduled

import (
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// laneFloors spares the leader the dead heads of the lanes. Claimed tasks leave entries at the front of their lane's index range, which
// vacuum removes; as long as some session's old snapshot keeps it from that, each look would step over all of them. When looks become
// slow by it, most of them begin in each lane behind what was claimed there last, and only some look at all: what came to lie before
// that, as a task scheduled for a time that has passed, is found a little later, and those behind it run first. So it is only done where
// it helps: on a machine that is merely slow each look is slow, and all look at everything.
type laneFloors struct {
	known    map[laneKey]laneFloor
	fullAt   time.Time       // when to look at everything again
	fullTook []time.Duration // the last looks at everything
	spares   bool            // looks from the floors on are quicker by far
	triedAt  time.Time       // when it was last tried whether they are
	full     bool            // the look under way is at everything
	began    time.Time
	now      time.Time // the database's, at the last look
}

type laneKey struct {
	queue, kind string
	priority    int
}

type laneFloor struct {
	at   time.Time // nothing is before it, as far as is known
	seen time.Time // when the lane last had a task
}

const (
	// A look at everything is slow from here on, and then takes at most a twentieth of the time.
	fullSlow  = 5 * time.Millisecond
	fullShare = 20
	// But not less often than this: what lies before the floors waits for it.
	fullWithin = 5 * time.Second
	// What all of so many looks at everything took is no single stall of the machine's.
	fullLooks = 5
	// While it does not help, it is tried again so often, by a peek that claims nothing.
	floorTry = 10 * time.Second
	// An emptied lane is remembered for so long: its dead heads are in the way of finding new lanes.
	floorKept = 10 * time.Minute
)

// The heads of the lanes that are known, from their floors on, and of some that are not: at most one in each gap between them. Each gap is
// told by bounds on single columns: at a row comparison's upper bound the scan would not end, but step over the dead heads behind it.
const knownLanesSQL = `
WITH known AS MATERIALIZED (
    SELECT k.*, lag(k.priority) OVER types AS last_priority, lead(k.priority) OVER types AS next_priority,
        first_value(k.type) OVER before AS last_type, first_value(k.type) OVER after AS next_type,
        first_value(k.queue) OVER behind AS next_queue,
        row_number() OVER (ORDER BY k.queue, k.type, k.priority) AS place, count(*) OVER () AS lanes
    FROM unnest($2::text[], $3::text[], $4::int[], $5::timestamptz[]) AS k (queue, type, priority, floor)
    WINDOW types AS (PARTITION BY k.queue, k.type ORDER BY k.priority),
        before AS (PARTITION BY k.queue ORDER BY k.type GROUPS BETWEEN 1 PRECEDING AND 1 PRECEDING),
        after AS (PARTITION BY k.queue ORDER BY k.type GROUPS BETWEEN 1 FOLLOWING AND 1 FOLLOWING),
        behind AS (ORDER BY k.queue GROUPS BETWEEN 1 FOLLOWING AND 1 FOLLOWING)
), lane AS (
    SELECT known.queue, known.type, known.priority, head.next_attempt_at, false AS is_new
    FROM known CROSS JOIN LATERAL (
        SELECT t.next_attempt_at FROM tasktable.scheduled_tasks AS t
        WHERE t.cron IS NULL AND t.queue = known.queue AND t.type = known.type AND t.priority = known.priority AND t.next_attempt_at >= known.floor
        ORDER BY t.next_attempt_at LIMIT 1
    ) AS head
    UNION ALL -- lanes of higher priority, up to the next that is known
    SELECT gap.queue, gap.type, gap.priority, gap.next_attempt_at, true
    FROM known CROSS JOIN LATERAL (
        SELECT t.queue::text AS queue, t.type::text AS type, t.priority::int AS priority, t.next_attempt_at FROM tasktable.scheduled_tasks AS t
        WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NULL AND t.type IS NOT NULL AND t.queue = known.queue AND t.type = known.type AND t.priority > known.priority AND t.priority < coalesce(known.next_priority, 1000)
        ORDER BY t.queue, t.type, t.priority, t.next_attempt_at LIMIT 1
    ) AS gap
    WHERE true
    UNION ALL -- of lower priority than the first of a type
    SELECT gap.queue, gap.type, gap.priority, gap.next_attempt_at, true
    FROM known CROSS JOIN LATERAL (
        SELECT t.queue::text AS queue, t.type::text AS type, t.priority::int AS priority, t.next_attempt_at FROM tasktable.scheduled_tasks AS t
        WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NULL AND t.type IS NOT NULL AND t.queue = known.queue AND t.type = known.type AND t.priority < known.priority
        ORDER BY t.queue, t.type, t.priority, t.next_attempt_at LIMIT 1
    ) AS gap
    WHERE known.last_priority IS NULL
    UNION ALL -- types up to the next of the queue
    SELECT gap.queue, gap.type, gap.priority, gap.next_attempt_at, true
    FROM known CROSS JOIN LATERAL (
        SELECT t.queue::text AS queue, t.type::text AS type, t.priority::int AS priority, t.next_attempt_at FROM tasktable.scheduled_tasks AS t
        WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NULL AND t.type IS NOT NULL AND t.queue = known.queue AND t.type > known.type AND t.type < known.next_type
        ORDER BY t.queue, t.type, t.priority, t.next_attempt_at LIMIT 1
    ) AS gap
    WHERE known.next_priority IS NULL AND known.next_type IS NOT NULL
    UNION ALL -- after the last of the queue
    SELECT gap.queue, gap.type, gap.priority, gap.next_attempt_at, true
    FROM known CROSS JOIN LATERAL (
        SELECT t.queue::text AS queue, t.type::text AS type, t.priority::int AS priority, t.next_attempt_at FROM tasktable.scheduled_tasks AS t
        WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NULL AND t.type IS NOT NULL AND t.queue = known.queue AND t.type > known.type
        ORDER BY t.queue, t.type, t.priority, t.next_attempt_at LIMIT 1
    ) AS gap
    WHERE known.next_priority IS NULL AND known.next_type IS NULL
    UNION ALL -- before the first of the queue
    SELECT gap.queue, gap.type, gap.priority, gap.next_attempt_at, true
    FROM known CROSS JOIN LATERAL (
        SELECT t.queue::text AS queue, t.type::text AS type, t.priority::int AS priority, t.next_attempt_at FROM tasktable.scheduled_tasks AS t
        WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NULL AND t.type IS NOT NULL AND t.queue = known.queue AND t.type < known.type
        ORDER BY t.queue, t.type, t.priority, t.next_attempt_at LIMIT 1
    ) AS gap
    WHERE known.last_priority IS NULL AND known.last_type IS NULL
    UNION ALL -- queues up to the next
    SELECT gap.queue, gap.type, gap.priority, gap.next_attempt_at, true
    FROM known CROSS JOIN LATERAL (
        SELECT t.queue::text AS queue, t.type::text AS type, t.priority::int AS priority, t.next_attempt_at FROM tasktable.scheduled_tasks AS t
        WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NULL AND t.type IS NOT NULL AND t.queue > known.queue AND t.queue < known.next_queue
        ORDER BY t.queue, t.type, t.priority, t.next_attempt_at LIMIT 1
    ) AS gap
    WHERE known.next_priority IS NULL AND known.next_type IS NULL AND known.next_queue IS NOT NULL
    UNION ALL -- after the last queue
    SELECT gap.queue, gap.type, gap.priority, gap.next_attempt_at, true
    FROM known CROSS JOIN LATERAL (
        SELECT t.queue::text AS queue, t.type::text AS type, t.priority::int AS priority, t.next_attempt_at FROM tasktable.scheduled_tasks AS t
        WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NULL AND t.type IS NOT NULL AND t.queue > known.queue
        ORDER BY t.queue, t.type, t.priority, t.next_attempt_at LIMIT 1
    ) AS gap
    WHERE known.place = known.lanes
    UNION ALL -- before the first queue
    SELECT gap.queue, gap.type, gap.priority, gap.next_attempt_at, true
    FROM known CROSS JOIN LATERAL (
        SELECT t.queue::text AS queue, t.type::text AS type, t.priority::int AS priority, t.next_attempt_at FROM tasktable.scheduled_tasks AS t
        WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NULL AND t.type IS NOT NULL AND t.queue < known.queue
        ORDER BY t.queue, t.type, t.priority, t.next_attempt_at LIMIT 1
    ) AS gap
    WHERE known.place = 1
)
SELECT clock_timestamp() AS now, lane.queue, lane.type, lane.priority,
    least(greatest(lane.next_attempt_at, '1970-01-01'::timestamptz), '9999-12-30'::timestamptz) AS head, coalesce(lane.is_new, false) AS is_new,
    least(extract(epoch FROM least(greatest(lane.next_attempt_at, '1970-01-01'::timestamptz), '9999-12-30'::timestamptz)
        - coalesce($1::timestamptz, clock_timestamp())), 604800)::float8 AS due_in
FROM (SELECT 1) AS one LEFT JOIN lane ON true`

// queue adds the statements whose answers read reads to a batch. peek says that nothing is claimed by what it finds.
func (f *laneFloors) queue(s statements, batch *pgx.Batch, peek bool) {
	f.began = time.Now()
	f.full = len(f.known) == 0 || !f.began.Before(f.fullAt)
	if !f.full && !f.spares {
		f.full = !peek || f.began.Sub(f.triedAt) < floorTry || f.least() < fullSlow
	}
	if f.full {
		batch.Queue(s.schema.SQL(lanesSQL), nil)
	} else {
		queues, kinds := make([]string, 0, len(f.known)), make([]string, 0, len(f.known))
		priorities, floors := make([]int, 0, len(f.known)), make([]time.Time, 0, len(f.known))
		for key, floor := range f.known {
			queues, kinds, priorities, floors = append(queues, key.queue), append(kinds, key.kind), append(priorities, key.priority), append(floors, floor.at)
		}
		batch.Queue(s.schema.SQL(knownLanesSQL), nil, queues, kinds, priorities, floors)
	}
	batch.Queue(s.schema.SQL(recurringLanesSQL), nil)
	batch.Queue(s.schema.SQL(pausesSQL), nil, nil)
}

// read reads the answers, and learns from them.
func (f *laneFloors) read(results pgx.BatchResults) (found listedLanes, err error) {
	tasks, err := readLaneRows(results)
	if err != nil {
		return found, err
	}
	took := time.Since(f.began)
	f.learn(tasks, took)
	recurring, err := readLaneRows(results)
	if err != nil {
		return found, err
	}
	found.tasks, found.recurring = lanesOf(tasks, false), lanesOf(recurring, true)
	rows, err := results.Query()
	if err != nil {
		return found, fmt.Errorf("read pauses: %w", err)
	}
	found.paused, err = pgx.CollectRows(rows, pgx.RowToStructByName[pause])
	return found, wrap(err, "read pauses")
}

// learn takes what a look has found, and how long it took.
func (f *laneFloors) learn(rows []laneRow, took time.Duration) {
	now := time.Now()
	if f.full {
		f.fullAt = now
		f.fullTook = append(f.fullTook[max(len(f.fullTook)-fullLooks+1, 0):], took)
		if took >= fullSlow {
			f.fullAt = now.Add(min(fullShare*took, fullWithin))
		} else {
			f.spares = false
		}
	} else {
		f.spares, f.triedAt = took <= f.least()/2, now
	}
	if f.known == nil {
		f.known = map[laneKey]laneFloor{}
	}
	for _, row := range rows {
		f.now = row.Now
		if row.Queue == nil || row.Type == nil || row.Priority == nil || row.Head == nil {
			continue
		}
		floor := *row.Head
		if floor.After(row.Now) {
			floor = row.Now // what is scheduled next may be due before what is now the first
		}
		f.known[laneKey{*row.Queue, *row.Type, *row.Priority}] = laneFloor{at: floor, seen: now}
		if row.IsNew {
			f.fullAt = now // there may be more than this one
		}
	}
	for key, floor := range f.known {
		if now.Sub(floor.seen) > floorKept {
			delete(f.known, key)
		}
	}
}

// least is what the quickest of the last looks at everything took; 0 while they were few.
func (f *laneFloors) least() time.Duration {
	if len(f.fullTook) < fullLooks {
		return 0
	}
	return slices.Min(f.fullTook)
}

// claimed moves the floors behind what was claimed; but not past the present: tasks may yet come that are due before those claimed ahead.
func (f *laneFloors) claimed(taken []claimed) {
	for _, c := range taken {
		key := laneKey{c.Queue, c.Type, c.Priority}
		floor := f.known[key]
		if c.Due.After(floor.at) && !c.Due.After(f.now) {
			f.known[key] = laneFloor{at: c.Due, seen: time.Now()}
		}
	}
}
