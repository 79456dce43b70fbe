package leader

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

func TestSilenceLook(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 29, 1, 59, 59, 0, time.UTC)
	before := func(d time.Duration) time.Time { return now.Add(-d) }
	held, free := taskdb.LiveNode{Number: 7, Held: true, Silent: -1}, taskdb.LiveNode{Number: 7, Silent: -1}
	noted := func(d time.Duration) taskdb.LiveNode { return taskdb.LiveNode{Number: 7, Silent: d} }
	led := taskdb.LiveNode{Number: 7, Led: true, Silent: -1}
	for name, c := range map[string]struct {
		known   time.Duration // since the last sign of life; negative: not known
		node    taskdb.LiveNode
		refused time.Duration // negative: never

		heard time.Duration
		next  time.Duration // negative: none
		dead  bool
	}{
		"alive":            {-1, held, -1, 0, -1, false},
		"alive, as before": {time.Second, held, -1, 0, -1, false},
		"alive, though it was noted as silent": {
			-1, taskdb.LiveNode{Number: 7, Held: true, Silent: time.Hour}, -1, 0, -1, false,
		},
		"silent since the last look": {time.Second, free, -1, time.Second, 4 * time.Second, false},
		"silent for long enough":     {deadAfter, free, -1, deadAfter, -1, true},
		"silent for a moment less": {
			deadAfter - time.Millisecond, free, -1, deadAfter - time.Millisecond, time.Millisecond, false,
		},
		"silent, since nobody knows when":    {-1, free, -1, 0, deadAfter, false},
		"silent, as the leader before noted": {-1, noted(3 * time.Second), -1, 3 * time.Second, 2 * time.Second, false},
		"noted long ago":                     {-1, noted(time.Hour), -1, time.Hour, -1, true},
		"noted by this leader, later than it knows": {
			4 * time.Second, noted(3 * time.Second), -1, 4 * time.Second, time.Second, false,
		},
		"it led until this node was refused":    {-1, led, time.Second, time.Second, 4 * time.Second, false},
		"it led, and this node was not refused": {-1, led, -1, 0, deadAfter, false},
		"it leads":                              {-1, taskdb.LiveNode{Number: 7, Led: true, Held: true, Silent: -1}, time.Second, 0, -1, false},
		"another led":                           {-1, free, time.Second, 0, deadAfter, false},
		"it led, and is known":                  {2 * time.Second, led, time.Second, 2 * time.Second, 3 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := failureDetector{heard: map[int64]time.Time{99: now}}
			if c.known >= 0 {
				s.heard[7] = before(c.known)
			}
			refused := time.Time{}
			if c.refused >= 0 {
				refused = before(c.refused)
			}
			dead, next := s.look([]taskdb.LiveNode{c.node}, now, refused)
			if c.dead != slices.Equal(dead, []int64{7}) || !c.dead && len(dead) > 0 ||
				next != c.next && (next >= 0 || c.next >= 0) {
				t.Errorf("dead %v, next in %s; want dead %t, next in %s", dead, next, c.dead, c.next)
			}
			if want := map[int64]time.Time{7: before(c.heard)}; !maps.Equal(s.heard, want) {
				t.Errorf("heard %v, want %v", s.heard, want)
			}
		})
	}
}

// The next of several comes first.
func TestSilenceNextIsTheEarliest(t *testing.T) {
	t.Parallel()
	s, now := failureDetector{}, time.Now()
	dead, next := s.look(
		[]taskdb.LiveNode{
			{Number: 1, Silent: time.Second}, {Number: 2, Silent: 3 * time.Second}, {Number: 3, Silent: time.Hour},
		},
		now, time.Time{},
	)
	if !slices.Equal(dead, []int64{3}) || next != 2*time.Second {
		t.Errorf("dead %v, next in %s", dead, next)
	}
}

// silent adds a node that gives no sign of life, and returns its number.
func (b *bench) silent() int64 {
	b.T.Helper()
	return enginetest.Ask[int64](b.Bench, `INSERT INTO tasktable.nodes (service, version, host, queues, types)
		VALUES ('', '', '', '{}', '{}') RETURNING number`)
}

func (b *bench) isDead(node int64) bool {
	b.T.Helper()
	return b.Count(`SELECT count(*) FROM tasktable.nodes WHERE number = $1 AND dead_at IS NOT NULL`, node) == 1
}

// Who leads next goes on with the count that the leader before it began.
func TestNextLeaderKnowsSinceWhenNodesAreSilent(t *testing.T) {
	b := newBench(t)
	silent, fresh := b.silent(), b.silent()
	// As another leader has noted it, who is gone.
	b.Exec(`UPDATE tasktable.nodes SET last_seen_at = clock_timestamp() - interval '5 seconds'
		WHERE number = $1`, silent)
	b.elected()
	if !b.isDead(silent) || b.isDead(fresh) {
		t.Errorf("dead: the silent one %t, the fresh one %t", b.isDead(silent), b.isDead(fresh))
	}
	b.Counts("it is not noted since when the fresh one is silent", 1, `SELECT count(*) FROM tasktable.nodes
		WHERE number = $1 AND last_seen_at > clock_timestamp() - interval '5 seconds'`, fresh)
}

// A node that leads again counts from its own first look, as any new leader does, how long the others have been gone:
// what it saw when it led before says nothing of one whose session has just broken, and whose handlers still run.
func TestLeaderOnceMoreGivesNodesTheirTime(t *testing.T) {
	b := newBench(t)
	l := b.elected()
	other := b.silent()
	l.deadNodes.heard[other] = time.Now().Add(-time.Minute) // when it led before, the other lived
	b.OK(l.resign(t.Context()))
	b.leads(l)
	b.tick(l)
	b.tick(l) // the first one takes nothing back
	if b.isDead(other) {
		t.Error("the other node was taken for dead at the first look")
	}
	l.deadNodes.heard[other] = time.Now().Add(-deadAfter)
	b.tick(l)
	if !b.isDead(other) {
		t.Error("the other node is not taken for dead when its time is over")
	}
}
