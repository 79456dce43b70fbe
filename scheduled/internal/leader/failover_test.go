package leader

import (
	"testing"
)

// After a failover to a standby that was behind, the same numbers would be drawn again. The leader that finds another
// timeline than that of the leader before it moves the sequence once, before its first claim.
func TestNumbersMoveAfterAFailover(t *testing.T) {
	b := newBench(t)
	numbers := func() (last int64) {
		const sql = `SELECT least(t.last_value, j.last_value)
			FROM tasktable.task_numbers AS t, tasktable.river_job_id_seq AS j`
		b.OK(b.Pool.QueryRow(t.Context(), sql).Scan(&last))
		return last
	}
	elected := func() {
		t.Helper()
		l := b.candidate()
		b.leads(l)
		b.OK(l.resign(t.Context()))
	}
	last := numbers()
	for _, step := range []struct {
		what  string
		moves bool
	}{{"the first leader", false}, {"another one", false}, {"after a failover", true}, {"after that", false}} {
		if step.moves {
			b.Exec(`UPDATE tasktable.nodes SET timeline = 'FFFFFFFF' WHERE elected_at = (SELECT max(elected_at)
				FROM tasktable.nodes)`)
		}
		elected()
		now := numbers()
		if moved := now - last; (moved >= 10000000) != step.moves || !step.moves && moved > 100 {
			t.Errorf("%s: the numbers move by %d", step.what, moved)
		}
		last = now
	}
}
