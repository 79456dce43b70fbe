package inspect_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
	"github.com/tasktable/tasktable/store/internal/testbench"
)

// line puts a node's line into the table, of one that began an hour ago, and returns its number.
func (b *bench) line(service, queues, types string) int64 {
	b.Helper()
	return one[int64](b, b.Pool, `INSERT INTO tasktable.nodes (service, version, host, queues, types, started_at)
		VALUES ($1, 'v1.2.3', 'host-1/42', $2::text::jsonb, $3::text::text[], clock_timestamp() - interval '1 hour')
			RETURNING number`, service, queues, types)
}

// session is a connection that holds a node's locks until the test ends.
func (b *bench) session(number int64, leads bool) {
	b.Helper()
	conn, err := pgx.ConnectConfig(b.Ctx, b.Pool.Config().ConnConfig.Copy())
	b.Check(err)
	b.Cleanup(func() { _ = conn.Close(context.Background()) })
	const lock = `SELECT pg_advisory_lock((class - CASE WHEN class >= 2147483648 THEN 4294967296 ELSE 0 END)::int,
		$2::int) FROM tasktable.lock_class($1) AS class`
	b.Exec(conn, lock, "node", number)
	if leads {
		b.Exec(conn, lock, "leader", 0)
	}
}

// tidyNodes takes out of nodes what no test can know, once it is plausible.
func tidyNodes(b *bench, nodes []inspect.Node) []inspect.Node {
	b.Helper()
	for i := range nodes {
		n := &nodes[i]
		if ago := time.Since(n.StartedAt); ago < 50*time.Minute || ago > 2*time.Hour {
			b.Errorf("node %d: started at %v", n.Number, n.StartedAt)
		}
		if live := n.State == inspect.NodeLeads || n.State == inspect.NodeWorks; live {
			if n.LastSeen == nil || time.Since(*n.LastSeen).Abs() > testbench.Limit {
				b.Errorf("node %d, which %s, was last seen at %v", n.Number, n.State, n.LastSeen)
			}
			n.LastSeen = nil
		}
		for _, at := range []**time.Time{&n.ElectedAt, &n.LastSeen, &n.DeadAt} {
			if *at != nil {
				*at = new((*at).UTC())
			}
		}
		n.StartedAt = time.Time{}
	}
	return nodes
}

func TestNodes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	leads := b.line("events", `{"default": 10, "mail": 2}`, `{B,A}`)
	silent := b.line("events", `{"default": 1}`, `{A}`)
	works := b.line("shop", `{"mail": 3}`, `{}`)
	ended := b.line("events", `{"default": 5}`, `{A}`)
	spoiled := b.line("spoiled", `["default"]`, `{A,NULL}`)
	first := b.line("events", `{}`, `{}`)
	b.session(leads, true)
	b.session(works, false)
	b.session(ended, false) // it says so before it goes
	b.Exec(b.Pool, `UPDATE tasktable.nodes SET dead_at = '2020-01-01 02:00Z', last_seen_at = '2020-01-01 01:00Z',
		shares_slots = true, type_slots = '{"A": 3}', strict_queues = '{default,NULL,mail}', may_lead = false
		WHERE number = $1`, ended)
	b.Exec(b.Pool, `UPDATE tasktable.nodes SET dead_at = '2020-01-01 01:00Z' WHERE number = $1`, first)
	b.Exec(b.Pool, `UPDATE tasktable.nodes SET last_seen_at = '2020-01-01 04:00Z', elected_at = '2020-01-01Z'
		WHERE number = $1`, silent)
	b.Exec(b.Pool, `UPDATE tasktable.nodes SET elected_at = '2020-01-01 03:00Z', last_seen_at = '2020-01-01 02:00Z'
		WHERE number = $1`, leads)
	wanted := map[int64]inspect.Node{
		leads: {
			Number: leads, Service: "events", Version: "v1.2.3", Host: "host-1/42", State: inspect.NodeLeads, Role: "both",
			ElectedAt: at(3), Queues: map[string]int{"default": 10, "mail": 2}, Types: []string{"B", "A"},
		},
		silent: {
			Number: silent, Service: "events", Version: "v1.2.3", Host: "host-1/42", State: inspect.NodeSilent,
			Role: "both", ElectedAt: at(0), LastSeen: at(4), Queues: map[string]int{"default": 1}, Types: []string{"A"},
		},
		works: {
			Number: works, Service: "shop", Version: "v1.2.3", Host: "host-1/42", State: inspect.NodeWorks,
			Role: "leader", Queues: map[string]int{"mail": 3}, Types: []string{},
		},
		spoiled: {
			Number: spoiled, Service: "spoiled", Version: "v1.2.3", Host: "host-1/42", State: inspect.NodeSilent,
			Role: "both", Types: []string{"A"},
		},
		ended: {Number: ended, Service: "events", Version: "v1.2.3", Host: "host-1/42", State: inspect.NodeEnded,
			DeadAt: at(2), LastSeen: at(1), Queues: map[string]int{"default": 5}, SharesSlots: true,
			Role: "worker", StrictQueues: []string{"default", "mail"}, TypeSlots: map[string]int{"A": 3}, Types: []string{"A"}},
		first: {
			Number: first, Service: "events", Version: "v1.2.3", Host: "host-1/42", State: inspect.NodeEnded,
			Role: "leader", DeadAt: at(1), LastSeen: at(1), Queues: map[string]int{}, Types: []string{},
		},
	}
	for name, c := range map[string]struct {
		filter inspect.NodeFilter
		want   []int64
	}{
		"live":       {inspect.NodeFilter{}, []int64{leads, silent, works, spoiled}},
		"all":        {inspect.NodeFilter{Ended: true}, []int64{leads, silent, works, spoiled, ended, first}},
		"some":       {inspect.NodeFilter{Ended: true, Limit: 5}, []int64{leads, silent, works, spoiled, ended}},
		"a service":  {inspect.NodeFilter{Ended: true, Service: "events"}, []int64{leads, silent, ended, first}},
		"no service": {inspect.NodeFilter{Service: "none"}, []int64{}},
	} {
		for driver, db := range b.Readers() {
			nodes, err := b.Inspector.Nodes(b.Ctx, db, c.filter)
			b.Check(err)
			want := make([]inspect.Node, len(c.want))
			for i, number := range c.want {
				want[i] = wanted[number]
			}
			same(b, name+": "+driver, tidyNodes(b, nodes), want)
		}
	}
	for _, filter := range []inspect.NodeFilter{{Limit: -1}, {Limit: 10001}, {Service: "a\x00"}} {
		if _, err := b.Inspector.Nodes(b.Ctx, noDB(b), filter); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%+v: %v", filter, err)
		}
	}
}
