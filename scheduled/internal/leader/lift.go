package leader

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// A task may be due long before the mark of its lane, because somebody has scheduled it for a past time. If the mark
// were lowered to it, each claim would step over all dead entries in between, and would run into its time limit.
// Therefore the leader lifts such tasks to the mark.
const (
	// maxLowered is how far a deep look lowers a mark. Tasks whose transactions commit late lie less far back.
	maxLowered = 10 * time.Second
	// maxLow is how many tasks of a lane a deep look lists to be lifted.
	maxLow = 5000
)

// lowLane is a lane with tasks that lie far before its mark.
type lowLane struct {
	key   laneKey
	until time.Time
	ids   []string
}

// listLow lists the tasks that lie far before the marks. A lane that has no mark yet gets one at the time of the look,
// if it has few tasks, and if claims would have to step over many dead entries. That is so if the list takes long.
func (d *deepLook) listLow(
	ctx context.Context, conn *pgxpool.Conn, found DeepFound, known map[laneKey]time.Time,
) (low []lowLane, err error) {
	var lanes []taskdb.LaneRow
	var until []time.Time
	for _, row := range found.Lanes {
		mark, isKnown := known[keyOf(row)]
		if !isKnown {
			mark = found.Began
		}
		if row.Head.Before(mark.Add(-maxLowered)) {
			lanes, until = append(lanes, row), append(until, mark)
			low = append(low, lowLane{key: keyOf(row), until: mark})
		}
	}
	if len(lanes) == 0 {
		return nil, nil
	}
	var tasks []taskdb.LowTask
	var took time.Duration
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, deepLimitSQL); err != nil {
			return err
		}
		began := time.Now()
		tasks, err = d.statements.LowTasks(ctx, tx, lanes, until, maxLow)
		took = time.Since(began)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list tasks before the marks: %w", err)
	}
	for _, task := range tasks {
		low[task.Lane].ids = append(low[task.Lane].ids, task.ID)
	}
	return slices.DeleteFunc(low, func(one lowLane) bool {
		_, isKnown := known[one.key]
		return len(one.ids) == 0 || !isKnown && (len(one.ids) == maxLow || took < d.slowList)
	}), nil
}

func keyOf(row taskdb.LaneRow) laneKey { return laneKey{row.Queue, row.Type, row.Priority} }

// lift lifts the tasks that the last deep look has listed. A task that cannot be lifted stays, and the next deep look
// lists it again.
func (l *Leader) lift(ctx context.Context) error {
	low := l.Marks.low
	l.Marks.low = nil
	for _, lane := range low {
		to := l.Marks.known[lane.key]
		for ids := range slices.Chunk(lane.ids, l.writes.Now()) {
			err := pg.Isolate(ids, func(some []string) error {
				return l.Transaction(ctx, func(tx pgx.Tx) error {
					return l.statements.Lift(ctx, heardTx{tx, l.session}, some, to)
				})
			}, func(id string, err error) error {
				l.log.Error("task cannot be lifted to the mark of its lane; it waits", "task", id, "error", err)
				return nil
			})
			if pg.IsTimeout(err) {
				l.writes.Shrink(l.writes.Now())
			}
			if err != nil {
				return err
			}
			to = to.Add(time.Duration(len(ids)) * time.Microsecond) // they keep their order
		}
	}
	return nil
}
