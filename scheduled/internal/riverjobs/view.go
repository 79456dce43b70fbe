package riverjobs

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/plan"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// View is the leader's view of River's table: the jobs that wait for a node or run on one.
//
// Only the leader inserts jobs, and it does so on the connection on which it looks. Therefore it knows, after a look,
// each older job that is left. The next look reads these jobs by their ids, and all newer jobs. It does not read the
// index entries of jobs that are gone. While somebody holds an old snapshot, Postgres cannot remove these entries,
// and there may be millions.
//
// A look reads at most maxLong of the jobs that have run for long, in turn. The others of these are in the view as they
// were. Otherwise each look would take longer the more handlers run.
type View struct {
	List  []plan.Job
	asked []int64   // ids below Next that the look under way reads
	found []int64   // ids below Next that the former leader knew
	Next  int64     // the smallest id that the last look cannot have seen
	at    time.Time // when the last look was, by the database's clock
}

const (
	// longAfter is the age from which a running job is read in turn. Most jobs end before it.
	longAfter = 10 * time.Second
	// maxLong is how many of these jobs a look reads. With more of them, some looks pass until the leader notices that
	// one has ended. It makes a look every 250 ms at least while tasks wait for a slot.
	maxLong = 1000
)

// lookSQL reads the jobs. The column last is the largest id that was given out before this statement began. The times
// are bounded, because a job that is not the engine's may contain any time.
const lookSQL = `
SELECT sequence.last, sequence.now, coalesce(j.id, 0) AS id, coalesce(j.queue, '') AS queue,
    coalesce(j.kind, '') AS type, coalesce(j.state, '') AS state, coalesce(j.client, '') AS client,
    coalesce(j.metadata, '') AS metadata, coalesce(date_part('epoch', sequence.now - j.since), 0) AS age
FROM (
    SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('tasktable.river_job', 'id')::regclass),
        0)::bigint AS last, clock_timestamp() AS now OFFSET 0 -- one time for all jobs
) AS sequence LEFT JOIN (
    SELECT r.id, r.queue, r.kind, r.state::text AS state, r.metadata::text AS metadata,
        CASE WHEN r.state = 'running' THEN r.attempted_by[array_length(r.attempted_by, 1)] END AS client,
        least('9999-12-30',
            greatest('1970-01-01', CASE WHEN r.state = 'running' THEN r.attempted_at ELSE r.created_at END)) AS since
    FROM (
        SELECT * FROM tasktable.river_job AS newer WHERE newer.id >= $1::bigint
        UNION ALL
        SELECT * FROM tasktable.river_job AS older WHERE older.id = ANY ($2::bigint[])
    ) AS r
) AS j ON true`

// lookRow is a row of lookSQL: a job, or nothing but the sequence and the time if there is none. Then the id is 0.
type lookRow struct {
	Last     int64
	Now      time.Time
	ID       int64
	Queue    string
	Type     string
	State    string
	Client   string
	Metadata string
	Age      float64
}

// Queue adds the statement of a look to a batch. Read reads its answer.
func (j *View) Queue(s taskdb.Queries, batch *pgx.Batch) {
	// The jobs that were read longest ago come first in the list.
	j.asked = append(j.asked[:0], j.found...)
	long := 0
	for _, one := range j.List {
		if isLong(one) {
			if long++; long > maxLong {
				continue
			}
		}
		j.asked = append(j.asked, one.ID)
	}
	batch.Queue(s.Schema.SQL(lookSQL), j.Next, pg.OrEmpty(j.asked))
}

func isLong(one plan.Job) bool { return one.State == plan.Running && one.Age >= longAfter }

// Read reads the answer to the statement that Queue has added.
func (j *View) Read(results pgx.BatchResults) error {
	found, err := pg.CollectNext[lookRow](results, "read River's jobs")
	if err == nil {
		j.learn(found)
	}
	return err
}

// TakeOver begins with the jobs that the former leader knew. next is the smallest id that it had not seen, and older
// has the jobs below it that were there.
func (j *View) TakeOver(next int64, older []int64) { j.Next, j.found = next, older }

// Older returns the jobs with ids below Next.
func (j *View) Older() []int64 {
	older := slices.Clone(j.found)
	for _, one := range j.List {
		older = append(older, one.ID)
	}
	return older
}

// keepUnasked leaves in the list the jobs that a look at this time has not read. They have gone on since the last look.
func (j *View) keepUnasked(now time.Time) {
	asked := make(map[int64]bool, len(j.asked))
	for _, id := range j.asked {
		asked[id] = true
	}
	since := max(now.Sub(j.at), 0)
	j.List = slices.DeleteFunc(j.List, func(one plan.Job) bool { return asked[one.ID] })
	for i := range j.List {
		j.List[i].Age += since
	}
	j.asked, j.found, j.at = j.asked[:0], nil, now
}

// learn takes the result of a look.
func (j *View) learn(rows []lookRow) {
	if len(rows) > 0 { // there is always one, with the sequence
		j.keepUnasked(rows[0].Now)
	}
	for _, row := range rows {
		j.Next = max(j.Next, row.Last+1, 1)
		if row.ID == 0 {
			continue
		}
		var metadata Metadata
		// A job that is not the engine's counts as one task.
		_ = json.Unmarshal([]byte(row.Metadata), &metadata)
		one := plan.Job{
			ID: row.ID, Queue: row.Queue, Type: row.Type, State: row.State, Node: taskdb.NodeOf(row.Client),
			Tasks: max(metadata.Tasks, 1), Key: metadata.Key, Age: time.Duration(row.Age * float64(time.Second)),
		}
		if metadata.Due != 0 {
			one.Age = min(one.Age, row.Now.Sub(time.UnixMicro(metadata.Due)))
		}
		j.List = append(j.List, one)
	}
}

// Waiting returns the jobs that no node has fetched although they could have begun for longer than least.
func (j *View) Waiting(least time.Duration) []int64 {
	return j.ids(func(one plan.Job) bool { return one.State == plan.Available && one.Age > least })
}

// Of returns the jobs that run on a node.
func (j *View) Of(node int64) []int64 {
	return j.ids(func(one plan.Job) bool { return one.State == plan.Running && one.Node == node })
}

// Ended returns the jobs that River has finished and nobody has removed.
func (j *View) Ended() []int64 {
	return j.ids(func(one plan.Job) bool { return one.State != plan.Running && one.State != plan.Available })
}

func (j *View) ids(which func(plan.Job) bool) (ids []int64) {
	for _, one := range j.List {
		if which(one) {
			ids = append(ids, one.ID)
		}
	}
	return ids
}

// Nodes returns the nodes that run jobs.
func (j *View) Nodes() (nodes []int64) {
	for _, one := range j.List {
		if one.Node != 0 && !slices.Contains(nodes, one.Node) {
			nodes = append(nodes, one.Node)
		}
	}
	return nodes
}
