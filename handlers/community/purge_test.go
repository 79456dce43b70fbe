package community_test

import (
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers/community"
	"github.com/tasktable/tasktable/handlers/community/contract"
)

const tasksSQL = `SELECT type || ' ' || status FROM tasktable.scheduled_tasks WHERE id LIKE 'task-%' ORDER BY 1`

// mark marks three rows of a table: one whose time is just come, one before and one after that.
func (s *scene) mark(table, key string, keep time.Duration) {
	s.t.Helper()
	just, before, after := around(noon(s.t).Add(-keep))
	s.exec(
		`UPDATE community.`+table+` SET purge_marked_at = CASE `+key+` WHEN 'just' THEN $1::timestamptz
			WHEN 'before' THEN $2 WHEN 'after' THEN $3 END`,
		just, before, after,
	)
}

func TestMarkedDataIsPurgedByItsPolicy(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for _, id := range []string{"just", "before", "after", "unmarked"} {
		s.exec(`INSERT INTO community.notifications (event_id, occurrence_at, member_id, text, effect_key)
			VALUES ($1, $2, 'member-1', 'x', 'x')`, id, noon(t))
		s.exec(`INSERT INTO community.direct_messages (effect_key, sender, recipient, text)
			VALUES ($1, 'member-1', 'member-2', 'x')`, id)
		s.exec(`INSERT INTO community.scheduled_posts (id, community_id, author, body, publish_at, published_at)
			VALUES ($1, 'home', 'member-1', 'x', now(), now())`, id)
		s.add(community.Event{ID: id, StartsAt: noon(t)})
	}
	s.exec(`UPDATE community.retention_policies SET keep_days = 7 WHERE kind = 'direct_messages'`)
	s.exec(`UPDATE community.retention_policies SET keep_days = NULL WHERE kind = 'notifications'`)
	s.exec(`DELETE FROM community.retention_policies WHERE kind = 'events'`)
	s.mark("scheduled_posts", "id", 30*24*time.Hour)
	s.mark("direct_messages", "effect_key", 7*24*time.Hour)
	s.mark("notifications", "event_id", 100*365*24*time.Hour)
	s.mark("events", "id", 100*365*24*time.Hour)
	s.sweeps(contract.Purge{}, noon(t), community.Swept{"scheduled_posts": 2, "direct_messages": 2})
	s.mustList(`SELECT id FROM community.scheduled_posts ORDER BY id`, "after", "unmarked")
	s.mustList(`SELECT effect_key FROM community.direct_messages ORDER BY 1`, "after", "unmarked")

	s.exec(`UPDATE community.retention_policies SET keep_days = 0`)
	s.exec(`INSERT INTO community.retention_policies (kind, keep_days) VALUES ('events', 0)`)
	s.mark("notifications", "event_id", 0)
	s.mark("events", "id", 0)
	s.sweeps(contract.Purge{}, noon(t), community.Swept{
		"events": 2, "notifications": 2, "scheduled_posts": 1, "direct_messages": 1,
	})
	s.mustList(`SELECT event_id FROM community.notifications ORDER BY 1`, "after", "unmarked")
	s.mustList(`SELECT id FROM community.events ORDER BY id`, "after", "unmarked")
}

// What is purged takes its tasks along, as what is deleted does.
func TestPurgedDataHasNoTasks(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	later := noon(t).AddDate(1, 0, 0)
	if _, err := s.app.CreatePost(s.ctx, s.tx, community.Post{
		ID: "7", CommunityID: "home", Author: "member-1", Body: "x", PublishAt: later,
	}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"42", "43"} {
		if _, err := s.app.CreateEvent(s.ctx, s.tx, community.Event{
			ID: id, CommunityID: "home", Title: "x", StartsAt: later, PublishAt: later,
		}); err != nil {
			t.Fatal(err)
		}
	}
	s.exec(`UPDATE community.scheduled_posts SET purge_marked_at = $1`, noon(t).AddDate(0, -6, 0))
	s.exec(`UPDATE community.events SET purge_marked_at = $1 WHERE id = '42'`, noon(t).AddDate(0, -6, 0))
	s.sweeps(contract.Purge{}, noon(t), community.Swept{"events": 1, "scheduled_posts": 1})
	s.mustList(
		tasksSQL, "PUBLISH_EVENT CANCELLED", "PUBLISH_EVENT QUEUED", "PUBLISH_SCHEDULED_POST CANCELLED",
		"SEND_EVENT_REMINDER CANCELLED", "SEND_EVENT_REMINDER QUEUED",
	)
}
