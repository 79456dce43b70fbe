package scheduled

import (
	"testing"

	"github.com/tasktable/tasktable/handlers"
)

// Who leads next goes on with the count that the leader before it began.
func TestNextLeaderKnowsSinceWhenNodesAreSilent(t *testing.T) {
	t.Parallel()
	s := newBench(t)
	tr := s.prepare(nil, handlers.Handle(s.Handle))
	var silent, fresh int64
	const insert = `INSERT INTO tasktable.nodes (service, version, host, queues, types) VALUES ('', '', '', '{}', '{}')
		RETURNING number`
	for _, number := range []*int64{&silent, &fresh} {
		if err := s.Pool.QueryRow(t.Context(), insert).Scan(number); err != nil {
			t.Fatal(err)
		}
	}
	// As another leader has noted it, who is gone.
	s.Exec(`UPDATE tasktable.nodes SET last_seen_at = clock_timestamp() - interval '5 seconds'
		WHERE number = $1`, silent)
	tr.turns()
	const dead = `SELECT count(*) FROM tasktable.nodes WHERE number = $1 AND dead_at IS NOT NULL`
	if s.Count(dead, silent) != 1 || s.Count(dead, fresh) != 0 {
		t.Errorf("dead: %d of the silent one, %d of the fresh one", s.Count(dead, silent), s.Count(dead, fresh))
	}
	if n := s.Count(`SELECT count(*) FROM tasktable.nodes
		WHERE number = $1 AND last_seen_at > clock_timestamp() - interval '5 seconds'`, fresh); n != 1 {
		t.Error("it is not noted since when the fresh one is silent")
	}
	if n := s.Count(`SELECT count(*) FROM tasktable.nodes
		WHERE number = $1 AND elected_at IS NOT NULL`, tr.session.Number); n != 1 {
		t.Error("it is not noted who leads")
	}
	s.Exec(`DELETE FROM tasktable.nodes WHERE number = $1`, fresh)
	tr.run()
}
