package doctor

import (
	"context"
	"strings"
	"time"

	"github.com/tasktable/tasktable/store/calendars"
	"github.com/tasktable/tasktable/store/recurrence"
)

// recurringSQL reads the waiting recurring tasks by their index.
const recurringSQL = `
SELECT t.id::text AS id, t.cron::text AS cron, coalesce(t.time_zone::text, 'UTC') AS time_zone,
    coalesce(t.tenant_id::text, '') AS tenant_id,
    t.planned_revision IS NOT DISTINCT FROM t.revision AS planned, coalesce(t.planned_zone_data, '') AS zone_data
FROM tasktable.scheduled_tasks AS t WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NOT NULL
ORDER BY t.next_attempt_at, t.id::text COLLATE "C" LIMIT 1000`

type recurringRow struct {
	calendars.Of
	ID       string
	Planned  bool
	ZoneData string // the recurrence.Fingerprint of the zone when the leader planned the next fire, or ""
}

// recurringMost is how many tasks have findings of their own.
const recurringMost = 5

// recurring checks for recurring tasks whose rule is wrong, and for services whose nodes declare different recurring
// tasks. Attention tells which do not fire or succeed.
func (e *examination) recurring(ctx context.Context) error {
	found, err := rows[recurringRow](ctx, e, recurringSQL)
	if err != nil {
		return err
	}
	book, err := e.calendarsOf(ctx, found)
	if err != nil {
		return err
	}
	bad, resting := 0, []string{}
	for _, one := range found {
		rule, err := book.Rule(one.Of, nil) // it also refuses a rule that never fires, such as 30 February
		if err == nil && len(rule.Calendars()) > 0 && rule.NeverFires(time.Now()) {
			resting = append(resting, line(one.ID)+" ("+strings.Join(rule.Calendars(), ", ")+")")
		}
		if err == nil {
			continue
		}
		if bad++; bad <= recurringMost {
			e.fail("correct its cron or time_zone: the leader fails it when it comes to it",
				"recurring task %s does not fire: %s", line(one.ID), line(err.Error()))
		}
	}
	if bad > recurringMost {
		e.fail(e.sql("SELECT * FROM tasktable.recurring_tasks ORDER BY next_fire")+" or "+e.command("recurring list"),
			"%d more recurring tasks are like these", bad-recurringMost)
	}
	if len(resting) > 0 {
		e.warn("correct these calendars, or the cron of the tasks",
			"%s will not fire within 20 years, because of calendars: %s", several(len(resting), "recurring task"),
			strings.Join(resting[:min(len(resting), recurringMost)], ", "))
	}
	if bad == 0 {
		e.ok("%s waiting for the next fire", several(len(found), "recurring task"))
	}
	e.zoneData(found)
	return e.declared(ctx)
}

// calendarsOf reads the days of the calendars of all tasks.
func (e *examination) calendarsOf(ctx context.Context, found []recurringRow) (*calendars.Book, error) {
	of := make([]calendars.Of, len(found))
	for i, one := range found {
		of[i] = one.Of
	}
	return calendars.Read(ctx, e.tx, e.schema, of...)
}

// declaredSQL counts the sets of recurring tasks that the live nodes of a service declare. since is the age of the
// first node that declares the newest set.
const declaredSQL = `
SELECT s.service, count(*)::int AS sets, extract(epoch FROM statement_timestamp() - max(s.began))::float8 AS since
FROM (SELECT n.service, n.declaration_hash, min(n.started_at) AS began FROM tasktable.nodes AS n
    WHERE n.dead_at IS NULL AND n.declaration_hash IS NOT NULL GROUP BY n.service, n.declaration_hash) AS s
GROUP BY s.service HAVING count(*) > 1 ORDER BY s.service`

type declaredRow struct {
	Service string
	Sets    int
	Since   float64
}

// declared reports services whose live nodes declare several sets of recurring tasks. For each service the set counts
// whose first node started last.
func (e *examination) declared(ctx context.Context) error {
	found, err := rows[declaredRow](ctx, e, declaredSQL)
	if err != nil {
		return err
	}
	for _, one := range found {
		level := Info
		if one.Since > e.config.limits.conflict.Seconds() {
			level = Warning
		}
		e.find(level, "end the deployment, so that all nodes of the service are of one version; "+
			"if they are, give them names of their own (--service)",
			"nodes of service %s declare %d sets of recurring tasks, for %s: that of the newest holds",
			one.Service, one.Sets, seconds(one.Since))
	}
	return nil
}

// zoneData reports a time zone for which the leader has other data than this program, because the fires then depend on
// which node leads.
func (e *examination) zoneData(found []recurringRow) {
	zones := map[string]string{} // the fingerprint of this program's data, by zone
	for _, one := range found {
		if _, known := zones[one.TimeZone]; !known {
			zones[one.TimeZone] = ""
			if zone, err := time.LoadLocation(one.TimeZone); err == nil {
				zones[one.TimeZone] = recurrence.Fingerprint(zone)
			}
		}
		other := one.Planned && one.ZoneData != "" && !strings.HasPrefix(one.ZoneData, "calendar ")
		if mine := zones[one.TimeZone]; other && mine != "" && one.ZoneData != mine {
			e.warn("update the zone data of all nodes and of this machine, and restart the nodes: the package tzdata, "+
				"or the program if the machine has none",
				"the leader has other data of time zone %s than this program, so the next fire of %s may come at "+
					"another time after a change of the leader", line(one.TimeZone), line(one.ID))
			return
		}
	}
}
