package scheduled

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/store"
)

// claimLogSQL writes when tasks of each group are claimed.
const claimLogSQL = `
CREATE TABLE public.claim_log (of text, at timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE FUNCTION log_claim() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
	INSERT INTO public.claim_log (of) VALUES (coalesce(NEW.group_key, ''));
	RETURN NULL;
END $$;
CREATE TRIGGER log_claim AFTER UPDATE ON tasktable.scheduled_tasks FOR EACH ROW
WHEN (NEW.fence IS DISTINCT FROM OLD.fence AND NEW.fence IS NOT NULL) EXECUTE FUNCTION log_claim()`

// In no time are more tasks of a group claimed than the burst and its rate allow, also when the leader changes. The
// tasks of one group do not use up the rate of another.
func TestRatesOfGroups(t *testing.T) {
	s := newBench(t)
	s.Exec(claimLogSQL)
	s.set(store.Limit{Name: "rate", Of: store.Type("QUICK"), Per: store.PerGroup, Rate: 20, Burst: 5})
	const n = 45
	groups := []string{"a", "b", "c"}
	for _, group := range groups {
		s.addMany(n, group, func(task *store.Task) { task.Group = group })
	}
	s.addMany(50, "none", func(*store.Task) {})
	start := func() (stop func()) {
		return s.node(func(c *Config) { c.Queues = map[string]int{"default": 20} },
			handlers.Handle(func(context.Context, *handlers.Task[quick]) error { return nil }))
	}
	stop := start()
	s.Sees("it leads", `SELECT count(*) = 1 FROM tasktable.nodes WHERE elected_at IS NOT NULL`)
	start()
	s.Sees("some have run", `SELECT count(*) >= 95 FROM tasktable.scheduled_tasks WHERE status = 'COMPLETED'`)
	stop()
	s.Sees("all have run", fmt.Sprintf(`SELECT count(*) = %d FROM tasktable.scheduled_tasks
		WHERE status = 'COMPLETED'`, 3*n+50))
	for _, group := range groups {
		rows, err := s.Pool.Query(t.Context(), `SELECT at FROM public.claim_log WHERE of = $1 ORDER BY at`, group)
		s.OK(err)
		claims, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
		if err != nil || len(claims) < n { // one that was handed back is claimed again
			t.Fatalf("%d claims of %s: %v", len(claims), group, err)
		}
		for i := range claims {
			for j := i; j < len(claims); j++ {
				in := claims[j].Sub(claims[i])
				if most := 5 + in.Seconds()*20 + 0.001; float64(j-i+1) > most { // times are rounded to microseconds
					t.Fatalf("%d of %s are claimed in %s, want at most %.1f", j-i+1, group, in, most)
				}
			}
		}
	}
	s.Sees("the leaders have changed", `SELECT count(*) = 2 FROM tasktable.nodes WHERE elected_at IS NOT NULL`)
}
