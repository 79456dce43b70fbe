package scheduled

import (
	"testing"

	"github.com/tasktable/tasktable/handlers"
)

// Who leads next goes on with the count that the leader before it began.
func TestNextLeaderKnowsSinceWhenNodesAreSilent(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	tr := s.prepare(nil, handlers.Handle(s.handle))
	var silent, fresh int64
	const insert = `INSERT INTO tasktable.nodes (service, version, host, queues, types) VALUES ('', '', '', '{}', '{}')
		RETURNING number`
	for _, number := range []*int64{&silent, &fresh} {
		if err := s.pool.QueryRow(t.Context(), insert).Scan(number); err != nil {
			t.Fatal(err)
		}
	}
	// As another leader has noted it, who is gone.
	s.exec(`UPDATE tasktable.nodes SET last_seen_at = clock_timestamp() - interval '5 seconds'
		WHERE number = $1`, silent)
	tr.turns()
	const dead = `SELECT count(*) FROM tasktable.nodes WHERE number = $1 AND dead_at IS NOT NULL`
	if s.count(dead, silent) != 1 || s.count(dead, fresh) != 0 {
		t.Errorf("dead: %d of the silent one, %d of the fresh one", s.count(dead, silent), s.count(dead, fresh))
	}
	if n := s.count(`SELECT count(*) FROM tasktable.nodes
		WHERE number = $1 AND last_seen_at > clock_timestamp() - interval '5 seconds'`, fresh); n != 1 {
		t.Error("it is not noted since when the fresh one is silent")
	}
	if n := s.count(`SELECT count(*) FROM tasktable.nodes
		WHERE number = $1 AND elected_at IS NOT NULL`, tr.session.Number); n != 1 {
		t.Error("it is not noted who leads")
	}
	s.exec(`DELETE FROM tasktable.nodes WHERE number = $1`, fresh)
	tr.run()
}
