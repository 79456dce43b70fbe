package community_test

import (
	"maps"
	"testing"

	"github.com/tasktable/tasktable/handlers/community"
	"github.com/tasktable/tasktable/handlers/community/contract"
	"github.com/tasktable/tasktable/store"
)

// furnish gives a member a row of each kind that hangs on an account, beside memberships and posts.
func (s *scene) furnish(member string) {
	s.t.Helper()
	s.exec(`INSERT INTO community.refresh_tokens (member_id, expires_at) VALUES ($1, 'infinity')`, member)
	s.exec(`INSERT INTO community.one_time_passwords (member_id, expires_at) VALUES ($1, 'infinity')`, member)
	s.exec(`INSERT INTO community.sessions (member_id, expires_at) VALUES ($1, 'infinity'), ($1, 'infinity')`, member)
	s.exec(`INSERT INTO community.moments (member_id, body, journaled, expires_at)
		VALUES ($1, 'x', true, 'infinity')`, member)
	s.exec(`INSERT INTO community.activities VALUES ('did ' || $1, $1, 'login', now())`, member)
	s.exec(`INSERT INTO community.notifications (event_id, occurrence_at, member_id, text, effect_key)
		VALUES ('42', now(), $1, 'x', 'x')`, member)
	s.exec(`INSERT INTO community.direct_messages (effect_key, sender, recipient, text)
		VALUES ('from ' || $1, $1, 'outsider', 'x'), ('to ' || $1, 'outsider', $1, 'x')`, member)
}

func TestFlaggedAccountsAreSuspended(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	just, _, after := around(noon(t))
	s.furnish("member-1")
	s.furnish("member-2")
	s.exec(`INSERT INTO community.members (id, email, flagged_at) VALUES ('flagged later', 'x', $1)`, after)
	s.exec(`INSERT INTO community.members (id, email, flagged_at, suspended_at)
		VALUES ('suspended', 'x', $1, $1)`, just.AddDate(0, -1, 0))
	s.exec(`INSERT INTO community.sessions (member_id, expires_at)
		VALUES ('flagged later', 'infinity'), ('suspended', 'infinity')`)
	s.exec(`UPDATE community.members SET flagged_at = $1 WHERE id = 'member-2'`, just)
	if results := s.ran(contract.AccountSuspension{}, noon(t)); !maps.Equal(results[0], community.Swept{"members": 1}) {
		t.Errorf("%v", results)
	}
	s.mustList(`SELECT id || ' ' || to_char(suspended_at AT TIME ZONE 'UTC', 'MM-DD HH24:MI') FROM community.members
		WHERE suspended_at IS NOT NULL ORDER BY id`,
		"member-2 06-01 12:00", "suspended 05-01 12:00")
	s.mustList(`SELECT DISTINCT member_id FROM community.sessions ORDER BY 1`, "flagged later", "member-1", "suspended")
	s.mustList(`SELECT member_id FROM community.refresh_tokens UNION ALL SELECT member_id FROM community.one_time_passwords`,
		"member-1", "member-1")
	// A suspension that was lifted stays lifted.
	s.exec(`UPDATE community.members SET flagged_at = NULL, suspended_at = NULL WHERE id = 'member-2'`)
	s.sweeps(contract.AccountSuspension{}, noon(t), nil)
}

func TestDeactivatedAccountsAreDeletedAfterTheGracePeriod(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	just, before, after := around(noon(t).Add(-community.DeactivationGrace))
	for _, member := range []string{"just", "before", "after"} {
		s.exec(`INSERT INTO community.members (id, email) VALUES ($1, 'x')`, member)
		s.furnish(member)
		if _, err := s.app.JoinCommunity(s.ctx, s.tx, "home", member); err != nil {
			t.Fatal(err)
		}
		post := community.Post{
			ID: member, CommunityID: "home", Author: member, Body: "x", PublishAt: noon(t).AddDate(1, 0, 0),
		}
		if _, err := s.app.CreatePost(s.ctx, s.tx, post); err != nil {
			t.Fatal(err)
		}
	}
	s.exec(`UPDATE community.members SET deactivated_at = CASE id WHEN 'just' THEN $1::timestamptz WHEN 'before' THEN $2
		WHEN 'after' THEN $3 END`, just, before, after)
	// The welcomes, which are not what runs here.
	s.exec(`UPDATE tasktable.scheduled_tasks SET scheduled_at = '2036-01-01'`)
	s.exec(`UPDATE community.communities SET host = 'just'`)
	want := community.Swept{"members": 2, "memberships": 2, "scheduled_posts": 2}
	if results := s.ran(contract.DeactivatedAccountPurge{}, noon(t)); !maps.Equal(results[0], want) {
		t.Errorf("%v", results)
	}
	s.mustList(`SELECT id FROM community.communities WHERE host IS NULL`, "home")
	for _, table := range []string{
		"refresh_tokens", "one_time_passwords", "sessions", "moments", "notifications", "activities",
	} {
		s.mustList(`SELECT DISTINCT member_id FROM community.`+table, "after")
	}
	s.mustList(`SELECT id FROM community.members ORDER BY id`, "after", "member-1", "member-2", "outsider")
	s.mustList(`SELECT effect_key FROM community.direct_messages ORDER BY 1`, "from after", "to after")
	s.mustList(`SELECT DISTINCT member_id FROM community.memberships ORDER BY 1`, "after", "member-1", "member-2")
	s.mustList(tasksSQL, "PUBLISH_SCHEDULED_POST CANCELLED", "PUBLISH_SCHEDULED_POST CANCELLED",
		"PUBLISH_SCHEDULED_POST QUEUED", "WELCOME_MEMBER CANCELLED", "WELCOME_MEMBER CANCELLED",
		"WELCOME_MEMBER QUEUED")
	// Who comes back in time stays.
	s.exec(`UPDATE community.members SET deactivated_at = NULL WHERE id = 'after'`)
	s.sweeps(contract.DeactivatedAccountPurge{}, noon(t).AddDate(0, 6, 0), nil)
}

// More accounts than one run suspends or deletes are suspended and deleted by the next runs.
func TestManyAccounts(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.exec(`INSERT INTO community.members (id, email, flagged_at, deactivated_at) SELECT 'm' || i, 'x', $1, $1
		FROM generate_series(1, 250) AS i`, noon(t).Add(-community.DeactivationGrace))
	for _, payload := range []store.Payload{contract.AccountSuspension{}, contract.DeactivatedAccountPurge{}} {
		if results := s.ran(payload, noon(t)); len(results) != 3 {
			t.Errorf("%s: %d runs", payload.TaskType(), len(results))
		}
	}
	s.mustList(`SELECT id FROM community.members ORDER BY id`, "member-1", "member-2", "outsider")
}
