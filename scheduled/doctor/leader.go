package doctor

import (
	"context"
	"fmt"
	"time"
)

// leaderSQL reads the sessions that hold or await the leader's lock, and the number of the node whose lock the same
// session holds.
const leaderSQL = `
SELECT l.pid, l.granted, coalesce(a.usename, '')::text AS role, coalesce(a.application_name, '') AS application,
    n.number, coalesce(n.service, '') AS service, coalesce(n.host, '') AS host
FROM pg_locks AS l
LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
LEFT JOIN pg_locks AS own ON own.pid = l.pid AND own.database = l.database AND own.locktype = 'advisory' AND own.granted
    AND own.objsubid = 2
    AND own.classid::bigint = (SELECT tasktable.lock_class('node'))
LEFT JOIN tasktable.nodes AS n ON n.number = own.objid::bigint
WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.classid::bigint = (SELECT tasktable.lock_class('leader'))
    AND l.objid::bigint = 0
    AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
ORDER BY l.granted DESC, l.pid`

type leaderRow struct {
	PID         int32
	Granted     bool
	Role        string
	Application string
	Number      *int64
	Service     string
	Host        string
}

// leader checks who holds the leader's lock. A new leader takes some tenths of a second, so the check looks again if
// the leader is missing.
func (e *examination) leader(ctx context.Context) error {
	alive, err := e.listNodes(ctx)
	if err != nil {
		return err
	}
	found, err := e.holders(ctx)
	if err != nil {
		return err
	}
	for began := time.Now(); len(alive) > 0 && !led(found) && time.Since(began) < e.config.limits.noLeader; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(200 * time.Millisecond):
		}
		if found, err = e.holders(ctx); err != nil {
			return err
		}
	}
	if len(found) == 0 {
		e.info("", "nobody holds the leader's lock: see attention")
	}
	for _, one := range found {
		e.holder(one)
	}
	return nil
}

func (e *examination) holders(ctx context.Context) ([]leaderRow, error) {
	return rows[leaderRow](ctx, e, leaderSQL)
}

// led reports whether a session holds the lock.
func led(found []leaderRow) bool { return len(found) > 0 && found[0].Granted }

func (e *examination) holder(one leaderRow) {
	who := fmt.Sprintf("pid %d (role %s, application %q)", one.PID, one.Role, line(one.Application))
	end := fmt.Sprintf("SELECT pg_terminate_backend(%d);", one.PID)
	switch {
	case one.Granted && one.Number != nil:
		e.ok("node %d leads: %s on %s, %s", *one.Number, one.Service, one.Host, who)
	case one.Granted:
		e.fail(end+" and let nobody connect who has nothing to do here: REVOKE CONNECT ON DATABASE "+
			named(e.config.Pool.Config().ConnConfig.Database)+" FROM PUBLIC;",
			"%s holds the leader's lock, and is no node: nothing is claimed", who)
	default:
		e.warn(end, "%s waits for the leader's lock, which no node does: it will hold it when the leader goes", who)
	}
}
