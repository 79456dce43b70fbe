package leader

import (
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// Lanes is what the leader knows of the lanes.
type Lanes struct {
	tasks, recurring Marks
	writers          writers
	nodes            []taskdb.LiveNode // those that work the lanes
}

func newLanes() Lanes { return Lanes{tasks: newMarks(false), recurring: newMarks(true)} }

// Work sets which nodes work lanes. It reports whether other lanes are worked than before.
func (l *Lanes) Work(nodes []taskdb.LiveNode) (changed bool) {
	if slices.EqualFunc(l.nodes, nodes, func(a, b taskdb.LiveNode) bool {
		return a.Number == b.Number && maps.Equal(a.Queues, b.Queues) && slices.Equal(a.Types, b.Types)
	}) {
		return false
	}
	l.nodes = nodes
	worked := taskdb.WorkedBy(nodes)
	if slices.Equal(worked, l.tasks.worked) {
		return false
	}
	l.tasks.work(worked)
	l.recurring.work(worked)
	return true
}

// Queue adds the statements of a look to a batch. read reads their answers. The first statement is about transactions,
// so that what these commit before its answer is seen by those after it.
func (l *Lanes) Queue(s taskdb.Queries, batch *pgx.Batch) {
	batch.Queue(writersSQL)
	for _, m := range []*Marks{&l.tasks, &l.recurring} {
		s.QueueLook(batch, m.recurring, m.reach(l.writers.settled, false), maxFound)
	}
	batch.Queue(s.Schema.SQL(taskdb.PausesSQL), nil, nil)
}

// read reads the answers. more says that there may be lanes which the next look lists.
func (l *Lanes) read(results pgx.BatchResults) (found taskdb.ListedLanes, more bool, err error) {
	now, err := l.writers.read(results)
	if err != nil {
		return found, false, err
	}
	tasks, err := pg.CollectNext[taskdb.LaneRow](results, "list lanes")
	if err != nil {
		return found, false, err
	}
	recurring, err := pg.CollectNext[taskdb.LaneRow](results, "list lanes of recurring tasks")
	if err != nil {
		return found, false, err
	}
	var others bool
	found.Tasks, more = l.tasks.looked(tasks, now)
	found.Recurring, others = l.recurring.looked(recurring, now)
	found.Paused, err = pg.CollectNext[taskdb.Pause](results, "read pauses")
	return found, more || others, err
}

// survey is a look at lanes of which the part before the other looks was not read.
type survey struct {
	owed  [2]map[taskdb.WorkedLane]time.Time // of the tasks, and of the recurring ones
	began time.Time                          // by the database's clock
	rows  [2][]taskdb.LaneRow
}

// owes reports whether a survey is to be made.
func (l *Lanes) owes() bool {
	return l.tasks.covered.IsZero() || len(l.tasks.owed)+len(l.recurring.owed) > 0
}

// queueSurvey adds the statements of a survey to a batch.
func (l *Lanes) queueSurvey(s taskdb.Queries, batch *pgx.Batch) *survey {
	var made survey
	batch.Queue(writersSQL)
	for i, m := range []*Marks{&l.tasks, &l.recurring} {
		made.owed[i] = maps.Clone(m.owed)
		s.QueueLook(batch, m.recurring, m.reach(time.Time{}, true), maxFound)
	}
	return &made
}

func (s *survey) read(results pgx.BatchResults) (err error) {
	if s.began, err = new(writers).read(results); err != nil {
		return err
	}
	for i := range s.rows {
		if s.rows[i], err = pg.CollectNext[taskdb.LaneRow](results, "list lanes"); err != nil {
			return err
		}
	}
	return nil
}

// learn takes a survey.
func (l *Lanes) learn(made *survey) {
	l.tasks.surveyed(made.rows[0], made.began, made.owed[0])
	l.recurring.surveyed(made.rows[1], made.began, made.owed[1])
}

// writersSQL asks for the oldest transaction that writes, and for the next one. The number of a transaction is drawn
// when it writes first.
const writersSQL = `SELECT clock_timestamp(), pg_snapshot_xmin(now.snapshot)::text::bigint,
    pg_snapshot_xmax(now.snapshot)::text::bigint FROM (SELECT pg_current_snapshot() OFFSET 0) AS now (snapshot)`

// writers says how long ago the oldest transaction that still writes began. It knows the next number at some times.
type writers struct {
	settled time.Time // all transactions that wrote before it have ended
	seen    []nextWriter
}

type nextWriter struct {
	at     time.Time
	number int64
}

const (
	// writingSince is how long it may take from when a transaction computes the time of its first task until it draws
	// its number.
	writingSince = time.Second
	// noteWriters is how far apart the times lie at least, and maxWriters is how many there are at most.
	noteWriters, maxWriters = 100 * time.Millisecond, 1000
)

func (w *writers) read(results pgx.BatchResults) (now time.Time, err error) {
	var oldest, next int64
	if err := results.QueryRow().Scan(&now, &oldest, &next); err != nil {
		return now, pg.Annotate(err, "ask for the oldest transaction")
	}
	w.note(now, oldest, next)
	return now, nil
}

func (w *writers) note(now time.Time, oldest, next int64) {
	last := len(w.seen) - 1
	if last >= 0 && w.seen[last].at.After(now) { // the clock was set back
		w.seen, w.settled, last = nil, earlier(w.settled, now.Add(-writingSince)), -1
	}
	if last < 0 || now.Sub(w.seen[last].at) >= noteWriters {
		w.seen = append(w.seen, nextWriter{now, next})
	}
	ended := 0
	for ended < len(w.seen) && w.seen[ended].number <= oldest {
		w.settled = w.seen[ended].at.Add(-writingSince)
		ended++
	}
	if ended > 1 {
		w.seen = slices.Delete(w.seen, 0, ended-1)
	}
	if len(w.seen) > maxWriters {
		every := 0
		w.seen = slices.DeleteFunc(w.seen, func(nextWriter) bool { every++; return every%2 == 0 })
	}
}
