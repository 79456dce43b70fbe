package leader

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/riverjobs"
)

// What the nudge says, whoever listens: a line for each queue in which jobs wait for long enough, in the
// schema's own channel.
func TestNudgeSays(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]struct {
		jobs string // queue, state, age in seconds
		want string
	}{
		"nothing waits":   {`('a', 'running', 9), ('a', 'completed', 9)`, "[]"},
		"not long enough": {`('a', 'available', 0)`, "[]"},
		"once a queue": {
			`('a', 'available', 2), ('a', 'available', 3), ('b-c_d', 'available', 2), ('e', 'available', -2)`,
			"[a b-c_d]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.Exec(`INSERT INTO tasktable.river_job (kind, queue, state, finalized_at, created_at, max_attempts, args)
				SELECT 'JOB', queue, state::tasktable.river_job_state, CASE state
					WHEN 'completed' THEN now() END, clock_timestamp() - age * interval '1 second', 1, '{}'
				FROM (VALUES ` + in.jobs + `) AS one (queue, state, age)`)
			conn, err := pgx.ConnectConfig(t.Context(), b.Pool.Config().ConnConfig)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
			if _, err := conn.Exec(t.Context(), `LISTEN "tasktable.river_insert"; LISTEN over`); err != nil {
				t.Fatal(err)
			}
			jobs := riverjobs.View{Next: 1}
			b.see(&jobs)
			if err := riverjobs.Nudge(t.Context(), conn, b.Queries, pg.OrEmpty(jobs.Waiting(nudgeAfter))); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Exec(t.Context(), `NOTIFY over`); err != nil {
				t.Fatal(err)
			}
			said := []string{}
			for {
				heard, err := conn.WaitForNotification(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if heard.Channel == "over" {
					break
				}
				var queue string
				if err := b.Pool.QueryRow(
					t.Context(), `SELECT $1::jsonb ->> 'queue'`, heard.Payload,
				).Scan(&queue); err != nil {
					t.Fatal(err)
				}
				said = append(said, queue)
			}
			slices.Sort(said)
			if got := fmt.Sprint(said); got != in.want {
				t.Errorf("told River of the queues %s, want %s", got, in.want)
			}
		})
	}
}
