package leader

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/tasktable/tasktable/scheduled/internal/riverjobs"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// see has a leader look at River's jobs.
func (b *bench) see(jobs *riverjobs.View) {
	b.T.Helper()
	var batch pgx.Batch
	jobs.Queue(b.Queries, &batch)
	results := b.Pool.SendBatch(b.T.Context(), &batch)
	err := jobs.Read(results)
	if err = errors.Join(err, results.Close()); err != nil {
		b.T.Fatal(err)
	}
}

const insertJobSQL = `
INSERT INTO tasktable.river_job
    (kind, queue, state, attempted_at, attempted_by, finalized_at, created_at, max_attempts, args, metadata)
VALUES ('JOB', $1, $2::text::tasktable.river_job_state,
    CASE WHEN $2 <> 'available' THEN clock_timestamp() - interval '10 seconds' END, ARRAY[$3::text],
    CASE $2 WHEN 'completed' THEN now() END, clock_timestamp() - interval '20 seconds', 1, '{}', $4) RETURNING id`

// Each look knows all jobs: those that were there before by their ids, and the newer ones.
func TestRiverJobs(t *testing.T) {
	b := newBench(t)
	insert := func(queue, state, client, metadata string) (id int64) {
		t.Helper()
		b.OK(b.Pool.QueryRow(t.Context(), insertJobSQL, queue, state, client, metadata).Scan(&id))
		return id
	}
	jobs := riverjobs.View{Next: 1}
	list := func() (found []string) {
		t.Helper()
		b.see(&jobs)
		for _, one := range jobs.List {
			age := one.Age.Round(5 * time.Second)
			found = append(found, fmt.Sprintf("%s %s %d %d %s", one.Queue, one.State, one.Node, one.Tasks, age))
		}
		return found
	}
	if got := list(); len(got) != 0 {
		t.Errorf("an empty table has jobs %q", got)
	}
	soon := time.Now().Add(time.Minute).UnixMicro()
	first := insert("a", "available", "x", `{"tasks": 3, "due": 0}`)
	insert("b", "running", taskdb.ClientID(7), `{"tasks": 250, "due": 1}`)
	insert("c", "available", "x", fmt.Sprintf(`{"tasks": 1, "due": %d}`, soon))
	insert("d", "completed", "x", fmt.Sprintf(`{"tasks": -5, "due": %d}`, math.MaxInt64))
	insert("e", "running", "another's", `{"tasks": "many"}`)
	want := fmt.Sprintf("%q", []string{
		`a available 0 3 20s`, `b running 7 250 10s`, `c available 0 1 -1m0s`,
		`d completed 0 1 -2562047h47m15s`, `e running 0 1 10s`,
	})
	for look := range 3 {
		if got := fmt.Sprintf("%q", list()); got != want {
			t.Errorf("look %d:\n got %s\nwant %s", look, got, want)
		}
	}
	got := fmt.Sprint(jobs.Waiting(time.Second), jobs.Of(7), jobs.Nodes(), len(jobs.Ended()))
	if got != fmt.Sprintf("[%d] [%d] [7] 1", first, first+1) {
		t.Errorf("waiting, of the node, nodes, ended: %s", got)
	}
	b.Exec(`DELETE FROM tasktable.river_job WHERE id = $1`, first)
	insert("f", "available", "x", `{}`)
	if got := list(); len(got) != 5 || !slices.Contains(got, `f available 0 1 20s`) || jobs.Next != first+6 {
		t.Errorf("after one has gone and one has come: %q, next %d", got, jobs.Next)
	}
	jobs = riverjobs.View{}
	if got := list(); len(got) != 5 || jobs.Next != first+6 {
		t.Errorf("a leader that begins without handover sees %q, next %d", got, jobs.Next)
	}
	next, older := jobs.Next, slices.Clone(jobs.Older())
	insert("g", "available", "x", `{}`)
	jobs = riverjobs.View{}
	jobs.TakeOver(next, older)
	if got := list(); len(got) != 6 || jobs.Next != first+7 {
		t.Errorf("the next leader sees %q, next %d", got, jobs.Next)
	}
}

// However many jobs run for long, a look reads a bounded number of them. The leader notices within some looks that one
// has ended, and at once what happens to the others.
func TestLongJobsAreReadInTurn(t *testing.T) {
	b := newBench(t)
	b.Exec(`INSERT INTO tasktable.river_job (id, kind, queue, state, attempted_at, attempted_by, max_attempts, args)
		SELECT n, 'JOB', 'long', 'running', clock_timestamp() - interval '1 minute', ARRAY['a'], 1, '{}'
		FROM generate_series(1, 2500) AS n`)
	b.Exec(`INSERT INTO tasktable.river_job (id, kind, queue, max_attempts, args) VALUES (2501, 'JOB', 'waits', 1, '{}')`)
	b.Exec(`SELECT setval('tasktable.river_job_id_seq', 2501)`)
	jobs := riverjobs.View{Next: 1}
	b.see(&jobs)
	if len(jobs.List) != 2501 || jobs.Next != 2502 {
		t.Fatalf("%d jobs, next %d", len(jobs.List), jobs.Next)
	}
	ages := map[int64]time.Duration{}
	for _, one := range jobs.List {
		ages[one.ID] = one.Age
	}
	b.Exec(`DELETE FROM tasktable.river_job WHERE id = 2500`)
	b.Exec(`UPDATE tasktable.river_job SET state = 'running', attempted_at = now(), attempted_by = ARRAY['tasktable-8']
		WHERE id = 2501`)
	for look, want := range []int{2501, 2501, 2500, 2500} {
		var batch pgx.Batch
		jobs.Queue(b.Queries, &batch)
		if asked := len(batch.QueuedQueries[0].Arguments[1].([]int64)); asked > 1001 {
			t.Errorf("look %d reads %d jobs by their ids", look, asked)
		}
		b.see(&jobs)
		if len(jobs.List) != want || len(jobs.Of(8)) != 1 {
			t.Errorf("look %d: %d jobs, want %d; %d on the other node", look, len(jobs.List), want, len(jobs.Of(8)))
		}
		for _, one := range jobs.List {
			if one.Queue == "long" && (one.Age <= ages[one.ID] || one.Age > time.Hour) {
				t.Fatalf("look %d: job %d has run for %s, and before for %s", look, one.ID, one.Age, ages[one.ID])
			}
			ages[one.ID] = one.Age
		}
	}
}

// How long a job waits for a node counts by the database's clock. By that of a leader whose clock is an hour ahead, the
// job would go back to the queue an hour too late if no node fetches it.
func TestJobsHaveTheDatabasesTime(t *testing.T) {
	b := newBench(t)
	l := b.elected()
	now := time.Now()
	l.session.Clock.Learn(now.Add(time.Hour), now, now) // as if this process were an hour behind
	lane, claims := taskdb.LaneKey{Queue: "default", Type: "JOB"}, []taskdb.Claim{{ID: "a", Fence: 1, Due: now}}
	b.OK(l.transaction(t.Context(), func(tx pgx.Tx) error {
		return l.insert(t.Context(), tx, []river.InsertManyParams{riverjobs.JobOf(lane, 1, false, claims)})
	}))
	b.Counts("jobs with the time of the database", 1, `SELECT count(*) FROM tasktable.river_job
		WHERE created_at BETWEEN now() + interval '59 minutes' AND now() + interval '61 minutes'
			AND created_at - scheduled_at = interval '1 hour'`)
}
