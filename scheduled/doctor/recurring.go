package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/tasktable/tasktable/store/recurrence"
)

// Those that wait, by their index. What is not planned yet is due at once.
const recurringSQL = `
SELECT t.id::text AS id, t.queue::text AS queue, t.type::text AS type, t.cron::text AS cron, coalesce(t.time_zone::text, 'UTC') AS zone,
    t.planned_revision IS NOT DISTINCT FROM t.revision AS planned,
    extract(epoch FROM statement_timestamp() - t.next_attempt_at)::float8 AS late,
    EXISTS (SELECT 1 FROM tasktable.pauses AS p WHERE (p.ends_at IS NULL OR p.ends_at > statement_timestamp())
        AND (p.scope = 'all' OR p.scope = 'queue' AND p.name = t.queue OR p.scope = 'type' AND p.name = t.type)) AS paused
FROM tasktable.scheduled_tasks AS t WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NOT NULL
ORDER BY t.next_attempt_at, t.id::text COLLATE "C" LIMIT 1000`

type recurringRow struct {
	ID      string
	Queue   string
	Type    string
	Cron    string
	Zone    string
	Planned bool
	Late    float64 // seconds; negative: it is to fire
	Paused  bool
}

// recurringMost is how many tasks are told of one by one.
const recurringMost = 5

// recurring is about recurring tasks that do not fire, and services whose nodes do not agree which there are.
func (e *examination) recurring(ctx context.Context) error {
	found, err := rows[recurringRow](ctx, e, recurringSQL)
	if err != nil {
		return err
	}
	bad := 0
	for _, one := range found {
		do, what := e.firing(one)
		if what == "" {
			continue
		}
		if bad++; bad <= recurringMost {
			e.fail(do, "recurring task %s %s", line(one.ID), what)
		}
	}
	if bad > recurringMost {
		e.fail(e.sql("SELECT * FROM tasktable.recurring_tasks ORDER BY next_fire")+" or "+e.command("recurring list"), "%d more recurring tasks are like these",
			bad-recurringMost)
	}
	if bad == 0 {
		e.ok("%s waiting for the next fire", several(len(found), "recurring task"))
	}
	if err := e.zoneData(ctx); err != nil {
		return err
	}
	return e.declared(ctx)
}

// firing is what keeps a task from firing, and what to do about it.
func (e *examination) firing(one recurringRow) (do, what string) {
	_, err := recurrence.Parse(one.Cron, one.Zone) // which also refuses what never comes, as 30 February
	switch {
	case err != nil:
		return "correct its cron or time_zone: the leader fails it when it comes to it", "does not fire: " + line(err.Error())
	case one.Paused || one.Late < e.config.limits.late.Seconds():
		return "", ""
	}
	// Which nodes there are an application may not know.
	do = "see nodes and leader: one must lead, and one work queue " + line(one.Queue) + " and type " + one.Type + "; or " +
		e.command("why "+word(one.ID))
	if one.Planned {
		return do, "should have fired " + seconds(one.Late) + " ago"
	}
	return do, "has not been planned for " + seconds(one.Late)
}

// The sets that the live nodes of a service declare, and when the first node began that declares the newest.
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

// declared tells of services whose live nodes declare several sets of recurring tasks. Of each service the set holds that was seen last
// for the first time.
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
			"nodes of service %s declare %d sets of recurring tasks, for %s: that of the newest holds", one.Service, one.Sets, seconds(one.Since))
	}
	return nil
}

// Zones of which live nodes have different data.
const zoneDataSQL = `
SELECT zone.key AS zone, array_agg(n.number || ' (' || n.service || ' on ' || n.host || ')' ORDER BY n.number) AS nodes
FROM tasktable.nodes AS n CROSS JOIN LATERAL jsonb_each_text(n.zone_data) AS zone
WHERE n.dead_at IS NULL AND jsonb_typeof(n.zone_data) = 'object'
GROUP BY zone.key HAVING count(DISTINCT zone.value) > 1 ORDER BY zone.key COLLATE "C"`

type zoneDataRow struct {
	Zone  string
	Nodes []string
}

// zoneData tells of nodes whose clocks change at different times: when a recurring task fires then depends on who leads.
func (e *examination) zoneData(ctx context.Context) error {
	found, err := rows[zoneDataRow](ctx, e, zoneDataSQL)
	if err != nil || len(found) == 0 {
		return err
	}
	first := found[0]
	more := ""
	if len(found) > 1 {
		more = fmt.Sprintf(" and %s more", several(len(found)-1, "time zone"))
	}
	e.warn("update the zone data of these nodes: the package tzdata, or the program if the machine has none",
		"nodes have different data of time zone %s%s, so that fires depend on which node leads: nodes %s", line(first.Zone), more,
		line(strings.Join(first.Nodes[:min(recurringMost, len(first.Nodes))], ", ")))
	return nil
}
