package scheduled

import (
	"context"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

// What the leader finds dead is told to the service whose it is, once, also where another service leads.
func TestOnDeadOfAnotherService(t *testing.T) {
	t.Parallel()
	pool := storetest.Pool(t)
	heard := map[string]chan Failure{}
	for _, name := range []string{"leads", "no hook", "first", "second"} {
		heard[name] = make(chan Failure, 10)
		startNode(t, pool, func(c *Config) {
			c.Service = name
			if name != "no hook" {
				c.OnDead = func(_ context.Context, dead Failure) { heard[name] <- dead }
			}
		}, handlers.Func(
			map[bool]string{true: "OTHER", false: "JOB"}[name == "leads"], func(context.Context) error { return nil },
		))
		if name == "leads" {
			enginetest.Eventually(t, patience, "it leads", func() bool {
				var leads bool
				err := pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_locks
					WHERE locktype = 'advisory' AND objsubid = 2 AND objid = 0 AND granted
					AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`).Scan(&leads)
				return err == nil && leads
			})
		}
		enginetest.Eventually(t, patience, name+" is up", func() bool {
			var up bool
			err := pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM tasktable.nodes AS n
				JOIN pg_stat_activity AS a ON a.application_name = 'tasktable listener'
				AND a.datname = current_database() WHERE n.service = $1)`, name).Scan(&up)
			return err == nil && up
		})
	}
	enginetest.Eventually(t, patience, "all listen", func() bool {
		var listeners int
		err := pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND application_name = 'tasktable listener' AND query LIKE '%LISTEN%dead%'`).Scan(&listeners)
		return err == nil && listeners == 4
	})
	expires := func(id, payload string) {
		enginetest.Schedule(t, pool, store.Task{
			ID: id, Payload: store.JSON(payload), At: time.Now().Add(-time.Hour), Expiration: time.Second,
		})
	}
	// The leader learns of the others with its tick.
	enginetest.Eventually(t, patience, "the leader knows the others", func() bool {
		expires("probe "+time.Now().String(), `{"type":"JOB"}`)
		select {
		case dead := <-heard["first"]:
			return dead.Type == "JOB" && dead.Outcome == taskdb.OutcomeExpired && dead.Status == "EXPIRED"
		case <-heard["leads"]: // as long as it knew of nobody else
			return false
		case <-time.After(time.Second):
			return false
		}
	})
	for len(heard["first"])+len(heard["leads"]) > 0 {
		select {
		case <-heard["first"]:
		case <-heard["leads"]:
		}
	}
	expires("theirs", `{"type":"JOB"}`)
	if dead := enginetest.Receive(t, heard["first"], patience, "theirs is told of"); dead.ID != "theirs" ||
		dead.Revision == 0 || dead.Error == "" {
		t.Errorf("%+v", dead)
	}
	expires("ours", `{"type":"OTHER"}`)
	if dead := enginetest.Receive(t, heard["leads"], patience, "ours is told of"); dead.ID != "ours" {
		t.Errorf("%+v", dead)
	}
	for name, others := range heard {
		if len(others) > 0 {
			t.Errorf("%s also heard %+v", name, <-others)
		}
	}
}
