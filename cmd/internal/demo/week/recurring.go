package week

import (
	"time"

	"github.com/tasktable/tasktable/handlers/community"
	"github.com/tasktable/tasktable/store"
	rules "github.com/tasktable/tasktable/store/recurrence"
)

// The types of recurring tasks that the community's package does not have.
const (
	// PartnerSync fails with PartnerDown now. The demo has a handler for it.
	PartnerSync = "SYNC_PARTNER_CALENDAR"
	// exportStatistics has had no handler on any node since the rolling update.
	exportStatistics = "EXPORT_STATISTICS"
)

// series is a recurring task and the endings of its occurrences.
type series struct {
	task       task // a template
	cron, zone string
	by         string
	declaredBy string
	fires      time.Time // no fire from then on; zero: none after the week
	endings    func(fire time.Time) []ending
}

// Ids of the recurring tasks about which there is more to say.
const (
	failingID = "partner-prices"        // failed last time
	stuckID   = "partner-calendar-sync" // has failed so often that it is overdue
	overdueID = "export-statistics"
	pausedID  = "weekly-newsletter"
	probeID   = "uptime-probe" // fires soon after live nodes have come
)

func (w *week) recurring() {
	for _, declared := range community.Recurring() {
		t := task{id: declared.ID, kind: declared.Payload.TaskType(), retention: declared.Retention}
		w.repeat(series{task: t, cron: declared.Recurrence.Cron, zone: "UTC", by: "demo", declaredBy: "demo",
			endings: func(time.Time) []ending { return []ending{{result: w.swept(t.kind)}} }})
	}
	day := func(kind, id, cron string, payload map[string]any) series {
		t := task{id: id, kind: kind, payload: payload}
		return series{task: t, cron: cron, zone: "Europe/Berlin", by: eventsAPI}
	}
	w.repeat(day("LOG", "daily-digest", "0 7 * * *", map[string]any{"message": "the digest of the day"}))
	w.repeat(day("LOG", "monday-report", "30 8 * * 1", map[string]any{"message": "the report of the week"}))
	feed := day("HTTP_REQUEST", "partner-feed", "*/15 * * * *",
		map[string]any{"url": "https://feed.partner.example/v1/events"})
	feed.task.queue, feed.by = webhookQueue, partnerKey
	feed.endings = func(time.Time) []ending {
		if w.chance(6) {
			return []ending{{outcome: "RETRIED", err: "answered 502 to feed.partner.example (Bad Gateway)"}}
		}
		return nil
	}
	w.repeat(feed)
	probe := day("LOG", probeID, "@every 15s", map[string]any{"message": "alive"})
	probe.task.retention = time.Hour
	w.repeat(probe)
	w.repeat(w.failing(day(PartnerSync, stuckID, "25 * * * *", nil), 9*time.Hour))
	w.repeat(w.failing(day(PartnerSync, failingID, "40 4 * * *", nil), 24*time.Hour+time.Minute))
	export := day(exportStatistics, overdueID, "15 2 * * *", nil)
	export.task.expected, export.fires = 30*time.Minute, w.calendar.rollout
	w.repeat(export)
	weekly := day("LOG", pausedID, "0 17 * * 5", map[string]any{"message": "the newsletter of the week"})
	weekly.fires = w.now.Add(-20 * time.Hour)
	w.pause(w.repeat(weekly), weekly.fires, ops, time.Time{})
}

// PartnerDown is the error of the recurring task that fails.
const PartnerDown = "calendar of the partner: 503 Service Unavailable"

// failing makes the latest occurrences fail.
func (w *week) failing(s series, latest time.Duration) series {
	s.task.queue, s.task.maxAttempts = webhookQueue, 3
	s.endings = func(fire time.Time) []ending {
		if fire.Before(w.now.Add(-latest)) {
			return nil
		}
		again := ending{outcome: "RETRIED", err: PartnerDown}
		return []ending{again, again, {outcome: "FAILED", err: PartnerDown}}
	}
	return s
}

// swept is a result of one of the community's recurring tasks.
func (w *week) swept(kind string) map[string]any {
	switch kind {
	case "TOKEN_CLEANUP":
		return map[string]any{
			"refresh_tokens": w.random.IntN(90), "one_time_passwords": w.random.IntN(40),
			"sessions": w.random.IntN(200),
		}
	case "MESSAGE_EXPIRY":
		return map[string]any{"direct_messages": w.random.IntN(3)}
	}
	return map[string]any{}
}

// repeat writes a recurring task and its occurrences.
func (w *week) repeat(s series) *task {
	t := s.task
	rule, err := rules.Parse(s.cron, s.zone)
	if err != nil {
		panic(err) // the expressions are those of this file and of the community
	}
	since := w.from.Add(-time.Hour)
	t.scheduledAt = since
	t.recurs = &recurs{cron: s.cron, zone: s.zone, catchUpPaused: "none", declaredBy: s.declaredBy}
	if s.declaredBy != "" {
		t.recurs.catchUpPaused = "latest"
	}
	rule = rule.Anchored(since)
	parent := w.insert(since, "schedule", s.by, &t)
	until := w.until
	if !s.fires.IsZero() {
		until = s.fires
	}
	last := since
	for {
		fire := rule.Next(last)
		if !fire.Before(until) {
			w.plan(parent, rule, fire, last)
			return parent
		}
		last = fire
		parent.startedAt = fire
		w.fork(parent, s, fire, rule.Next(fire))
	}
}

// plan sets the next fire.
func (w *week) plan(parent *task, rule *rules.Rule, next, last time.Time) {
	parent.next = next
	r := parent.recurs
	r.planned, r.openFrom = parent.revision, last
	if r.wall = rule.Wall(next); !r.wall.IsZero() { // @every does not look at clocks
		r.zoneData = rule.ZoneData()
	}
}

const missedText = "missed, and catch_up runs only the latest"

// fork writes the occurrence of a fire. Of the fires that the downtime missed, only the latest runs.
func (w *week) fork(parent *task, s series, fire, next time.Time) {
	c, at := w.calendar, fire.Add(time.Millisecond)
	missed := !fire.Before(c.down) && fire.Before(c.up)
	if missed {
		at = c.up.Add(2 * time.Second)
	}
	skipped := missed && next.Before(c.up)
	if !skipped {
		parent.recurs.count++
	}
	if parent.retention > 0 && fire.Before(w.now.Add(-parent.retention)) {
		return // retention has removed it
	}
	one := &task{
		id: parent.id + "@" + fire.UTC().Format(time.RFC3339), kind: parent.kind, payload: parent.payload,
		queue: parent.queue, priority: parent.priority, scheduledAt: fire, expected: parent.expected,
		maxAttempts: parent.maxAttempts, retention: parent.retention, parent: parent.id,
		scheduledBy: parent.scheduledBy,
	}
	if skipped {
		one.status, one.message = store.StatusSkipped, missedText
	}
	w.insert(at, "fork", "leader", one)
	var endings []ending
	if s.endings != nil {
		endings = s.endings(fire)
	}
	w.run(one, endings...)
}
