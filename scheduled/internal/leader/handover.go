package leader

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// handover is what a leader writes to its node's row, so that the next leader steps over few dead entries. It may be
// old, because marks only move on, and River's jobs only get higher ids.
type handover struct {
	Next      int64        `json:"next"` // River's jobs with a smaller id are those in Jobs, or are gone
	Jobs      []int64      `json:"jobs"`
	Tasks     []handedLane `json:"tasks"`
	Recurring []handedLane `json:"recurring"`
}

// handedLane is a lane.
type handedLane struct {
	taskdb.LaneKey
	At   time.Time // its mark
	From time.Time // where a look begins
}

const (
	// handEvery is how often a leader that claims tasks writes its marks.
	handEvery = 5 * time.Second
	// maxHanded is how many lanes of either kind it writes at most, those with the latest marks. The next leader reads
	// the other lanes from their beginning.
	maxHanded = 1000
)

func (m *laneMarks) hand() (handed []handedLane) {
	for _, one := range m.lanes {
		handed = append(handed, handedLane{one.LaneKey, one.at, one.from()})
	}
	slices.SortFunc(handed, func(a, b handedLane) int { return b.At.Compare(a.At) })
	return handed[:min(len(handed), maxHanded)]
}

func (m *laneMarks) take(handed []handedLane) {
	var lanes []*markedLane
	for _, one := range handed {
		lanes = append(lanes, &markedLane{LaneKey: one.LaneKey, mark: mark{at: one.At, far: one.From, half: one.From}})
	}
	m.add(lanes)
}

const handSQL = `UPDATE tasktable.nodes SET marks = $2::text::jsonb WHERE number = $1`

// hand writes the marks, if there is something new to write.
func (l *Leader) hand(ctx context.Context) error {
	if !l.unwritten || time.Since(l.handedAt) < handEvery {
		return nil
	}
	for lane, one := range l.lanes.keys.lanes {
		l.lanes.markKeyed(lane, one, l.session.Clock.Now())
	}
	text, err := json.Marshal(handover{l.jobs.Next, l.jobs.Older(), l.lanes.tasks.hand(), l.lanes.recurring.hand()})
	if err == nil {
		err = l.transaction(ctx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, l.statements.Schema.SQL(handSQL), l.session.Number, string(text))
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("write the marks: %w", err)
	}
	l.unwritten, l.handedAt = false, time.Now()
	return nil
}

const handedSQL = `
SELECT n.marks::text FROM tasktable.nodes AS n WHERE n.marks IS NOT NULL
ORDER BY n.elected_at DESC NULLS LAST, n.number DESC LIMIT 1`

// takeOver begins with the marks of the leader before. Without them, the first look lists all lanes and River's jobs.
func (l *Leader) takeOver(ctx context.Context) error {
	found, err := pg.CollectColumn[string](ctx, l.conn, "read the marks of the leader before",
		l.statements.Schema.SQL(handedSQL))
	if err != nil || len(found) == 0 {
		return err
	}
	var handed handover
	if err := json.Unmarshal([]byte(found[0]), &handed); err != nil {
		l.log.Warn("the marks of the leader before cannot be read; this one reads all lanes", "error", err)
		return nil
	}
	l.lanes = newLanes()
	l.lanes.tasks.take(handed.Tasks)
	l.lanes.recurring.take(handed.Recurring)
	l.jobs.TakeOver(handed.Next, handed.Jobs)
	return nil
}
