package inspect_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

func TestWaysOfFilters(t *testing.T) {
	t.Parallel()
	of := func(words ...store.Status) []store.Status { return words }
	const scheduled, finished = "all tasks, by scheduled_at", "the tasks that have ended, by finished_at"
	for name, c := range map[string]struct {
		filter inspect.Filter
		want   string
	}{
		"none":           {inspect.Filter{}, scheduled},
		"type":           {inspect.Filter{Type: "A"}, scheduled},
		"entity":         {inspect.Filter{Entity: "e"}, "the tasks of an entity; " + scheduled},
		"spawned by":     {inspect.Filter{SpawnedBy: "e"}, "the follow-ups of a task; " + scheduled},
		"prefix":         {inspect.Filter{IDPrefix: "e"}, "the tasks whose ids begin alike; " + scheduled},
		"prefix by id":   {inspect.Filter{IDPrefix: "e", Order: inspect.ByID}, "all tasks, by id"},
		"tenant":         {inspect.Filter{TenantID: "e"}, "the tasks of a tenant, by scheduled_at"},
		"tenant, status": {inspect.Filter{TenantID: "e", Statuses: of("QUEUED")}, "the tasks of a tenant; " + scheduled},
		"queued":         {inspect.Filter{Statuses: of("QUEUED")}, scheduled},
		"failed":         {inspect.Filter{Statuses: of("FAILED")}, "the tasks of rare statuses; " + scheduled},
		"executing by id": {inspect.Filter{Statuses: of("EXECUTING"), Order: inspect.ByID},
			"the tasks of rare statuses; all tasks, by id"},
		"failed or completed":  {inspect.Filter{Statuses: of("FAILED", "COMPLETED")}, scheduled},
		"dead letters":         {inspect.DeadLetters(), "the tasks of rare final statuses, by finished_at"},
		"archived":             {inspect.Filter{Archived: new(true)}, "the tasks of rare statuses; " + scheduled},
		"archived, queued":     {inspect.Filter{Archived: new(true), Statuses: of("QUEUED")}, "nothing"},
		"waiting":              {inspect.Filter{Waiting: true}, "the tasks that wait for something out of order; " + scheduled},
		"waiting, by finished": {inspect.Filter{Waiting: true, Order: inspect.ByFinished}, "nothing"},
		"by finished":          {inspect.Filter{Order: inspect.ByFinished}, finished},
		"queued by finished":   {inspect.Filter{Order: inspect.ByFinished, Statuses: of("QUEUED")}, "nothing"},
		"ended since":          {inspect.Filter{FinishedFrom: far(0)}, "the tasks that ended within a time; " + scheduled},
	} {
		if got := inspect.Ways(c.filter); got != c.want {
			t.Errorf("%s: %s\ninstead of %s", name, got, c.want)
		}
	}
}

// Whichever way a list goes, and wherever it is cut, it has the same tasks in the same order.
func TestEachWayFindsTheSame(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	// Many tasks have the same times. Some were edited or cancelled while they ran.
	b.seed(`INSERT INTO tasktable.scheduled_tasks (id, payload, type, queue, entity, tenant_id, revision, status,
			scheduled_at, finished_at, archived_at, next_attempt_at, fence, lease_expires_at, message, spawned_by,
			parent_id, waiting_since)
		SELECT 'task ' || i * 7919 % 300, '{"type": "TEST"}', 'TYPE_' || i % 3, 'q' || i % 2, 'entity ' || i % 10,
			CASE WHEN i % 4 > 0 THEN 'tenant ' || i % 4 END, i, s.status, a.at,
			CASE WHEN f.final THEN a.at + i % 7 * interval '1 second' END,
			CASE WHEN s.status IN ('FAILED', 'EXPIRED') AND i % 5 = 0 THEN a.at END,
			CASE WHEN s.status = 'QUEUED' AND NOT h.held THEN a.at END, CASE WHEN h.held THEN i END,
			CASE WHEN h.held THEN a.at END, 'message ' || i % 11, CASE WHEN i % 50 = 0 THEN 'other' END,
			CASE WHEN i % 60 = 0 THEN 'recurs' END,
			CASE WHEN s.status = 'QUEUED' AND i % 2 = 0 THEN a.at END
		FROM generate_series(1, 300) AS i
		CROSS JOIN LATERAL (SELECT (ARRAY['QUEUED', 'EXECUTING', 'COMPLETED', 'COMPLETED', 'FAILED', 'EXPIRED',
			'CANCELLED', 'PAUSED', 'SKIPPED'])[1 + i * 31 % 9] AS status) AS s
		CROSS JOIN LATERAL (SELECT s.status NOT IN ('QUEUED', 'EXECUTING', 'PAUSED') AS final) AS f
		CROSS JOIN LATERAL (SELECT s.status = 'EXECUTING'
			OR i % 6 = 0 AND s.status IN ('QUEUED', 'PAUSED', 'CANCELLED') AS held) AS h
		CROSS JOIN LATERAL (SELECT '2026-01-01 00:00Z'::timestamptz + i % 23 * interval '1 minute' AS at) AS a`)
	all, err := b.Inspector.List(b.Ctx, b.Pool, inspect.Filter{Limit: 10000})
	b.Check(err)
	same(b, "tasks", len(all), 300)
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	of := func(words ...store.Status) []store.Status { return words }
	for name, c := range map[string]struct {
		filter inspect.Filter
		has    func(r store.Row) bool
	}{
		"all":    {inspect.Filter{}, func(store.Row) bool { return true }},
		"type":   {inspect.Filter{Type: "TYPE_1"}, func(r store.Row) bool { return r.Type == "TYPE_1" }},
		"entity": {inspect.Filter{Entity: "entity 3"}, func(r store.Row) bool { return *r.Entity == "entity 3" }},
		"tenant": {inspect.Filter{TenantID: "tenant 2"}, func(r store.Row) bool { return r.TenantID != nil && *r.TenantID == "tenant 2" }},
		"tenant, status": {inspect.Filter{TenantID: "tenant 2", Statuses: of("COMPLETED")}, func(r store.Row) bool {
			return r.TenantID != nil && *r.TenantID == "tenant 2" && r.Status == "COMPLETED"
		}},
		"spawned": {inspect.Filter{SpawnedBy: "other"}, func(r store.Row) bool { return r.SpawnedBy != nil }},
		"parent":  {inspect.Filter{ParentID: "recurs"}, func(r store.Row) bool { return r.ParentID != nil }},
		"prefix":  {inspect.Filter{IDPrefix: "task 1"}, func(r store.Row) bool { return strings.HasPrefix(r.ID, "task 1") }},
		"message": {inspect.Filter{Message: "age 7"}, func(r store.Row) bool { return *r.Message == "message 7" }},
		"rare": {inspect.Filter{Statuses: of("FAILED", "EXECUTING", "PAUSED", "SKIPPED")}, func(r store.Row) bool {
			return slices.Contains(of("FAILED", "EXECUTING", "PAUSED", "SKIPPED"), r.Status)
		}},
		"put off": {inspect.Filter{Waiting: true}, func(r store.Row) bool { return r.WaitingSince != nil && r.NextAttemptAt != nil }},
		"waiting": {inspect.Filter{Statuses: of("QUEUED"), Queue: "q1"}, func(r store.Row) bool { return r.Status == "QUEUED" && r.Queue == "q1" }},
		"dead letters": {inspect.DeadLetters(), func(r store.Row) bool {
			return (r.Status == "FAILED" || r.Status == "EXPIRED") && r.ArchivedAt == nil
		}},
		"archived":     {inspect.Filter{Archived: new(true)}, func(r store.Row) bool { return r.ArchivedAt != nil }},
		"not archived": {inspect.Filter{Archived: new(false)}, func(r store.Row) bool { return r.ArchivedAt == nil }},
		"scheduled": {inspect.Filter{ScheduledFrom: start.Add(5 * time.Minute), ScheduledTo: start.Add(9 * time.Minute)},
			func(r store.Row) bool {
				return !r.ScheduledAt.Before(start.Add(5*time.Minute)) && r.ScheduledAt.Before(start.Add(9*time.Minute))
			}},
		"finished": {inspect.Filter{FinishedFrom: start.Add(5 * time.Minute), FinishedTo: start.Add(9 * time.Minute)},
			func(r store.Row) bool {
				return r.FinishedAt != nil && !r.FinishedAt.Before(start.Add(5*time.Minute)) &&
					r.FinishedAt.Before(start.Add(9*time.Minute))
			}},
		"several": {inspect.Filter{
			Type: "TYPE_1", Statuses: of("QUEUED", "FAILED"), Queue: "q1", ScheduledFrom: start.Add(5 * time.Minute),
			ScheduledTo: start.Add(9 * time.Minute),
		}, func(r store.Row) bool {
			return r.Type == "TYPE_1" && (r.Status == "QUEUED" || r.Status == "FAILED") && r.Queue == "q1" &&
				!r.ScheduledAt.Before(start.Add(5*time.Minute)) && r.ScheduledAt.Before(start.Add(9*time.Minute))
		}},
		"no such": {inspect.Filter{Type: "NO_SUCH"}, func(store.Row) bool { return false }},
		"no time": {inspect.Filter{ScheduledFrom: start, ScheduledTo: start}, func(store.Row) bool { return false }},
	} {
		total, err := b.Inspector.Count(b.Ctx, b.Pool, c.filter)
		b.Check(err)
		order := cmp.Or(c.filter.Order, inspect.ByScheduled)
		same(b, name+", counted", total.Count, len(ordered(all, c.has, order, false)))
		for _, order := range []inspect.Order{inspect.ByScheduled, inspect.ByFinished, inspect.ByID} {
			for _, latest := range []bool{false, true} {
				filter := c.filter
				filter.Order, filter.LatestFirst, filter.Limit = order, latest, 40
				want := ordered(all, c.has, order, latest)
				// Few tasks of a sort, and short walks, so that each way is taken.
				for _, limits := range [][2]int{{50, 1000}, {50, 0}} {
					what := fmt.Sprint(name, " ", order, " ", latest, " ", limits)
					i := inspect.Limited(b.Inspector, limits[0], limits[1])
					same(b, what, searched(b, i, filter), want)
					rows, err := i.List(b.Ctx, b.Pool, filter)
					b.Check(err)
					same(b, what+", list", ids(rows), strings.Join(want[:min(40, len(want))], " "))
				}
			}
		}
	}
}

// searched reads all pages of a search.
func searched(b *bench, i *inspect.Inspector, filter inspect.Filter) []string {
	b.Helper()
	ids := []string{}
	for range 100 {
		page, err := i.Search(b.Ctx, b.Pool, filter)
		b.Check(err)
		if page.Cut != (page.After != nil && len(page.Rows) < filter.Limit) {
			b.Errorf("cut %v after %d tasks", page.Cut, len(page.Rows))
		}
		for _, row := range page.Rows {
			ids = append(ids, row.ID)
		}
		if filter.After = page.After; page.After == nil {
			return ids
		}
	}
	b.Errorf("the search does not end")
	return ids
}

// ordered are the ids of the tasks that a filter has, sorted in Go.
func ordered(all []store.Row, has func(store.Row) bool, order inspect.Order, latest bool) []string {
	rows := slices.DeleteFunc(slices.Clone(all), func(r store.Row) bool {
		return !has(r) || order == inspect.ByFinished && r.FinishedAt == nil
	})
	slices.SortFunc(rows, func(a, b store.Row) int {
		way := strings.Compare(a.ID, b.ID)
		switch order {
		case inspect.ByScheduled:
			way = cmp.Or(a.ScheduledAt.Compare(b.ScheduledAt), way)
		case inspect.ByFinished:
			way = cmp.Or(a.FinishedAt.Compare(*b.FinishedAt), way)
		}
		if latest {
			return -way
		}
		return way
	})
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	return ids
}
