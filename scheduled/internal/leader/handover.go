package leader

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// handover is what a leader writes to its node's row, so that the next leader need not look at what lies before. It may
// be old, because marks only move on, and River's jobs only get higher ids.
type handover struct {
	Next      int64         `json:"next"` // River's jobs with a smaller id are those in Jobs, or are gone
	Jobs      []int64       `json:"jobs"`
	Tasks     []handedLanes `json:"tasks"`
	Recurring []handedLanes `json:"recurring"`
}

// handedLanes are the lanes of a queue and type.
type handedLanes struct {
	Queue   string            `json:"queue"`
	Type    string            `json:"type"`
	Covered time.Time         `json:"covered"`
	Marks   map[int]time.Time `json:"marks"` // by priority
}

const (
	// handEvery is how often a leader that claims tasks writes its marks.
	handEvery = 5 * time.Second
	// maxHanded is how many queues and types with tasks it writes at most. The next leader reads the others from their
	// beginning.
	maxHanded = 2000
)

func (m *Marks) hand(settled time.Time) (handed []handedLanes) {
	for pair, marks := range m.lanes {
		covered, left := m.left[pair]
		if !left {
			covered = later(earlier(m.covered, settled), beginning)
		}
		if _, owes := m.owed[pair]; owes || len(handed) == maxHanded {
			continue
		}
		one := handedLanes{Queue: pair.Queue, Type: pair.Kind, Covered: covered, Marks: map[int]time.Time{}}
		for priority, mark := range marks {
			one.Marks[priority] = mark.from(settled)
		}
		handed = append(handed, one)
	}
	return handed
}

func (m *Marks) take(handed []handedLanes) {
	for _, one := range handed {
		pair := taskdb.WorkedLane{Queue: one.Queue, Kind: one.Type}
		m.left[pair] = one.Covered
		for priority, at := range one.Marks {
			m.add(pair, priority, at)
		}
	}
}

const handSQL = `UPDATE tasktable.nodes SET marks = $2::text::jsonb WHERE number = $1`

// hand writes the marks, if there is something new to write.
func (l *Leader) hand(ctx context.Context) error {
	if !l.unwritten || time.Since(l.handedAt) < handEvery {
		return nil
	}
	settled := l.Lanes.writers.settled
	made := handover{Tasks: l.Lanes.tasks.hand(settled), Recurring: l.Lanes.recurring.hand(settled)}
	made.Next, made.Jobs = l.jobs.Next, l.jobs.Older()
	text, err := json.Marshal(made)
	if err != nil {
		return fmt.Errorf("write the marks: %w", err)
	}
	sent := time.Now()
	_, err = l.session.Conn.Exec(ctx, l.statements.Schema.SQL(handSQL), l.session.Number, string(text))
	if l.session.Heard(sent, err); err != nil {
		return fmt.Errorf("write the marks: %w", err)
	}
	l.unwritten, l.handedAt = false, time.Now()
	return nil
}

const handedSQL = `
SELECT n.marks::text FROM tasktable.nodes AS n WHERE n.marks IS NOT NULL
ORDER BY n.elected_at DESC NULLS LAST, n.number DESC LIMIT 1`

// takeOver begins with the marks of the leader before. Without them, the leader makes a survey.
func (l *Leader) takeOver(ctx context.Context) error {
	found, err := pg.CollectColumn[string](ctx, l.session.Conn, "read the marks of the leader before",
		l.statements.Schema.SQL(handedSQL))
	if err != nil || len(found) == 0 {
		return err
	}
	var handed handover
	if err := json.Unmarshal([]byte(found[0]), &handed); err != nil {
		l.log.Warn("the marks of the leader before cannot be read; this one reads all lanes", "error", err)
		return nil
	}
	l.Lanes.tasks.take(handed.Tasks)
	l.Lanes.recurring.take(handed.Recurring)
	l.jobs.TakeOver(handed.Next, handed.Jobs)
	return nil
}
