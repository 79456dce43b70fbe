package dashboard_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/dashboard"
)

func TestNodes(t *testing.T) {
	t.Parallel()
	b := newBoard(t, as("ann", dashboard.Read, ""))
	b.get("/nodes").wants(t, http.StatusOK, "No node runs. Tasks wait until one does.", "No node runs.")
	leads := b.node("events", "v1"+markup, `{"default": 10, "mail": 2}`, `{BB,AA}`, true)
	works := b.node("events", "v2", `{"default": 4}`, `{A1,A2,A3,A4,A5}`, false)
	b.exec(`INSERT INTO tasktable.nodes (service, version, host, queues, types, dead_at) VALUES
		('gone', 'v0', 'host/9', '{}', '{}', clock_timestamp() - interval '1 hour'),
		('forgotten', 'v0', 'host/8', '{}', '{}', clock_timestamp() - interval '8 days')`)
	b.schedule(task("long/../one", "AA", time.Now().Add(-time.Hour)))
	b.asEngine(`UPDATE tasktable.scheduled_tasks SET status = 'EXECUTING', fence = 1, started_fence = 1, node = $1,
		started_at = clock_timestamp() - interval '12 minutes', next_attempt_at = NULL,
		lease_expires_at = clock_timestamp() + interval '1 hour'`, leads)
	b.exec(`INSERT INTO tasktable.river_job (state, metadata, attempted_by, kind, args, max_attempts, attempted_at)
		VALUES ('running', '{"tasks": 30}', ARRAY['tasktable-' || $1::bigint], 'AA', '{}', 1, clock_timestamp())`, leads)
	b.get("/nodes").wants(t, http.StatusOK, fmt.Sprintf("Node %d of events leads. Other nodes: 1 working.", leads),
		"The nodes of events have several versions: v1&lt;script&gt;", "v2 (1).", "default 10, mail 2", "30 for 12 slots",
		`max="12" value="12"`, "1 run for over a second", `href="/tasks/long%2F..%2Fone"`, "AA since 12 min ago", "AA, BB",
		"5 types A1, A2, A3, A4, A5", fmt.Sprintf("%d works", works), "0 for 4 slots").lacks(t, markup, "gone")
	b.get("/nodes?ended=1").wants(t, http.StatusOK, "gone v0 host/9").lacks(t, "forgotten")
}
