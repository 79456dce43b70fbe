package scheduled

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// riverJobs is the leader's view of River's table: the jobs that wait for a node or run on one.
//
// Only the leader inserts jobs, and it does so on the connection on which it looks. Therefore it knows, after a look,
// each older job that is left. The next look reads these jobs by their ids, and all newer jobs. It does not read the
// index entries of jobs that are gone. While somebody holds an old snapshot, Postgres cannot remove these entries,
// and there may be millions.
type riverJobs struct {
	list  []seenJob
	older []int64 // ids below next, of the jobs that were there at the last look
	next  int64   // the smallest id that the last look cannot have seen
}

// seenJob is a River job at the time of a look.
type seenJob struct {
	ID     int64
	Queue  string
	Type   string
	State  string
	Client string // River's id of the node that runs the job; "": no node runs it
	Tasks  int
	// Age is the time since the job could begin. It could begin when it was inserted or fetched and its last task
	// was due. It is negative while that task is not due.
	Age time.Duration
}

const (
	jobAvailable = "available"
	jobRunning   = "running"
)

// The column last is the largest id that was given out before this statement began. A job that is not the engine's
// may contain any time.
const jobsSQL = `
SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('tasktable.river_job', 'id')::regclass),
    0)::bigint AS last,
    clock_timestamp() AS now,
    j.id, j.queue, j.kind AS type, j.state, j.client, j.metadata, j.age
FROM (SELECT 1) AS one LEFT JOIN (
    SELECT r.id, r.queue, r.kind, r.state::text AS state, r.metadata::text AS metadata,
        CASE WHEN r.state = 'running' THEN r.attempted_by[array_length(r.attempted_by, 1)] END AS client,
        extract(epoch FROM clock_timestamp() - least('9999-12-30',
            greatest('1970-01-01', CASE WHEN r.state = 'running' THEN r.attempted_at
            ELSE r.created_at END)))::float8 AS age
    FROM (
        SELECT * FROM tasktable.river_job AS newer WHERE newer.id >= $1::bigint
        UNION ALL
        SELECT * FROM tasktable.river_job AS older WHERE older.id = ANY ($2::bigint[])
    ) AS r
) AS j ON true`

type seenJobRow struct {
	Last     int64
	Now      time.Time
	ID       *int64
	Queue    *string
	Type     *string
	State    *string
	Client   *string
	Metadata *string
	Age      *float64
}

// queue adds the statement of a look to a batch. read reads its answer.
func (j *riverJobs) queue(s taskdb.Queries, batch *pgx.Batch) {
	next := j.next
	if next == 0 {
		next = math.MaxInt64 // before its first deep look, a leader sees no jobs
	}
	batch.Queue(s.Schema.SQL(jobsSQL), next, notNilNumbers(j.older))
}

func (j *riverJobs) read(results pgx.BatchResults) error {
	found, err := taskdb.CollectNext[seenJobRow](results, "read River's jobs")
	if err == nil && j.next > 0 {
		j.learn(found)
	}
	return err
}

// deep takes the result of a deep look. That look began before the last look ended, so some of its jobs may be gone.
// The next look finds out which.
func (j *riverJobs) deep(rows []seenJobRow) {
	if j.next == 0 { // the first look since the node leads
		j.learn(rows)
		return
	}
	known := map[int64]bool{}
	for _, id := range j.older {
		known[id] = true
	}
	for _, row := range rows {
		if row.ID != nil && *row.ID < j.next && !known[*row.ID] {
			j.older = append(j.older, *row.ID)
		}
	}
}

// learn takes the result of a look.
func (j *riverJobs) learn(rows []seenJobRow) {
	j.list, j.older = j.list[:0], j.older[:0]
	for _, row := range rows {
		j.next = max(j.next, row.Last+1, 1)
		if row.ID == nil {
			continue
		}
		var metadata taskdb.JobMetadata
		// A job that is not the engine's counts as one task.
		_ = json.Unmarshal([]byte(taskdb.TextOf(row.Metadata)), &metadata)
		one := seenJob{
			ID: *row.ID, Queue: taskdb.TextOf(row.Queue), Type: taskdb.TextOf(row.Type),
			State: taskdb.TextOf(row.State), Client: taskdb.TextOf(row.Client), Tasks: max(metadata.Tasks, 1),
		}
		if row.Age != nil {
			one.Age = time.Duration(*row.Age * float64(time.Second))
		}
		if metadata.Due != 0 {
			one.Age = min(one.Age, row.Now.Sub(time.UnixMicro(metadata.Due)))
		}
		j.list, j.older = append(j.list, one), append(j.older, one.ID)
	}
}

// forget forgets all jobs, because another leader inserted jobs while this node did not lead.
func (j *riverJobs) forget() { *j = riverJobs{} }

// waiting returns the jobs that no node has fetched although they could have begun for longer than least.
func (j *riverJobs) waiting(least time.Duration) []int64 {
	var ids []int64
	for _, one := range j.list {
		if one.State == jobAvailable && one.Age > least {
			ids = append(ids, one.ID)
		}
	}
	return ids
}

// of returns the jobs that run on a client.
func (j *riverJobs) of(client string) []int64 {
	var ids []int64
	for _, one := range j.list {
		if one.State == jobRunning && one.Client == client {
			ids = append(ids, one.ID)
		}
	}
	return ids
}

// ended returns the jobs that River has finished and nobody has removed.
func (j *riverJobs) ended() []int64 {
	var ids []int64
	for _, one := range j.list {
		if one.State != jobRunning && one.State != jobAvailable {
			ids = append(ids, one.ID)
		}
	}
	return ids
}

// clients returns the clients of nodes that run jobs.
func (j *riverJobs) clients() []string {
	var clients []string
	for _, one := range j.list {
		if strings.HasPrefix(one.Client, taskdb.ClientPrefix) && !slices.Contains(clients, one.Client) {
			clients = append(clients, one.Client)
		}
	}
	return clients
}

// notNilNumbers sends an empty list to the database instead of null.
func notNilNumbers(numbers []int64) []int64 {
	if numbers == nil {
		return []int64{}
	}
	return numbers
}
