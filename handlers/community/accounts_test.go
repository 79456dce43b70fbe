package community_test

import (
	"testing"

	"github.com/tasktable/tasktable/handlers/community"
	"github.com/tasktable/tasktable/handlers/community/contract"
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
	s.sweeps(contract.AccountSuspension{}, noon(t), community.Swept{
		"members": 1, "refresh_tokens": 1, "one_time_passwords": 1, "sessions": 2,
	})
	s.mustList(`SELECT id || ' ' || to_char(suspended_at AT TIME ZONE 'UTC', 'MM-DD HH24:MI') FROM community.members
		WHERE suspended_at IS NOT NULL ORDER BY id`,
		"member-2 06-01 12:00", "suspended 05-01 12:00")
	s.mustList(`SELECT DISTINCT member_id FROM community.sessions ORDER BY 1`, "flagged later", "member-1", "suspended")
	// A suspension that was lifted stays lifted.
	s.exec(`UPDATE community.members SET flagged_at = NULL, suspended_at = NULL WHERE id = 'member-2'`)
	s.sweeps(contract.AccountSuspension{}, noon(t), nil)
}

// The accounts wait until all that hangs on them has been seen to, over several runs.
func TestManyAccountsAreSuspended(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.exec(`INSERT INTO community.members (id, email, flagged_at) SELECT 'm' || i, 'x', $1
		FROM generate_series(1, 1500) AS i`, noon(t))
	s.exec(`INSERT INTO community.sessions (member_id, expires_at) SELECT 'm' || (i % 1500 + 1), 'infinity'
		FROM generate_series(1, 18000) AS i`)
	if results := s.ran(contract.AccountSuspension{}, noon(t)); len(results) != 3 {
		t.Errorf("%d runs", len(results))
	}
	s.mustList(`SELECT id FROM community.members WHERE flagged_at IS NOT NULL AND suspended_at IS NULL`)
	s.mustList(`SELECT member_id FROM community.sessions`)
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
	s.sweeps(contract.DeactivatedAccountPurge{}, noon(t), community.Swept{
		"members": 2, "refresh_tokens": 2, "one_time_passwords": 2, "sessions": 4, "moments": 2, "notifications": 2,
		"activities": 2, "direct_messages": 4, "memberships": 2, "scheduled_posts": 2,
	})
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

// A community goes to the one who has belonged to it longest, of those whose account is in order, and with its host
// if there is none.
func TestTheHostsAccountIsDeleted(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.exec(`INSERT INTO community.members (id, email, deactivated_at, suspended_at) VALUES
		('away', 'x', $1, NULL), ('suspended', 'x', NULL, $1), ('second', 'x', NULL, NULL)`, noon(t))
	s.exec(`INSERT INTO community.communities (id, title, host)
		VALUES ('club', 'x', 'member-1'), ('empty', 'x', 'member-1')`)
	s.exec(`INSERT INTO community.memberships (id, community_id, member_id, joined_at)
		SELECT c || m, c, m, timestamptz '2020-01-01' + ordinality * interval '1 day'
		FROM unnest(ARRAY['member-1', 'away', 'suspended', 'member-2', 'second'])
			WITH ORDINALITY AS m (m, ordinality), unnest(ARRAY['club', 'empty']) AS c`)
	s.exec(`DELETE FROM community.memberships WHERE community_id = 'empty' AND member_id IN ('member-2', 'second')`)
	for _, community := range []string{"home", "club", "empty"} {
		s.exec(`INSERT INTO community.scheduled_posts (id, community_id, author, body, publish_at)
			VALUES ($1, $1, 'away', 'x', now())`, community)
	}
	s.add(community.Event{ID: "1", CommunityID: "club", StartsAt: noon(t)})
	if _, err := s.app.CreateEvent(s.ctx, s.tx, community.Event{
		ID: "2", CommunityID: "empty", Title: "x", StartsAt: noon(t).AddDate(1, 0, 0),
	}); err != nil {
		t.Fatal(err)
	}
	s.exec(`UPDATE community.members SET deactivated_at = $1
		WHERE id = 'member-1'`, noon(t).Add(-community.DeactivationGrace))
	s.sweeps(contract.DeactivatedAccountPurge{}, noon(t), community.Swept{
		// Of them 2 in which others were.
		"members": 1, "communities": 3, "events": 1, "scheduled_posts": 1, "memberships": 5,
	})
	s.mustList(`SELECT id || ' ' || host FROM community.communities ORDER BY id`, "club member-2", "home member-2")
	s.mustList(`SELECT id FROM community.events`, "1")
	s.mustList(`SELECT id FROM community.scheduled_posts ORDER BY id`, "club", "home")
	s.mustList(`SELECT id FROM community.members ORDER BY id`, "away", "member-2", "outsider", "second", "suspended")
	s.mustList(tasksSQL, "SEND_EVENT_REMINDER CANCELLED")
}

// More than a run's bound hangs on the account: it is deleted by the run that finds nothing more.
func TestAnAccountWithManyRowsIsDeleted(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.exec(`UPDATE community.members SET deactivated_at = $1
		WHERE id = 'outsider'`, noon(t).Add(-community.DeactivationGrace))
	s.exec(`INSERT INTO community.notifications (event_id, occurrence_at, member_id, text, effect_key)
		SELECT i::text, now(), 'outsider', 'x', 'x' FROM generate_series(1, $1::int) AS i`, community.MostRows)
	s.exec(`INSERT INTO community.moments (member_id, body, expires_at) VALUES ('outsider', 'x', 'infinity')`)
	results := s.ran(contract.DeactivatedAccountPurge{}, noon(t))
	if last := results[len(results)-1]; len(results) != 2 || last["members"] != 1 || last["moments"] != 1 ||
		last["notifications"] != 0 {
		t.Errorf("%d runs, the last %v", len(results), last)
	}
	s.mustList(`SELECT id FROM community.members ORDER BY id`, "member-1", "member-2")
}

// A foreign key to the account that the purge did not know would fail it, for ever.
func TestThePurgeKnowsAllThatRefersToAnAccount(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.mustList(`
SELECT conrelid::regclass::text || ' to ' || confrelid::regclass::text FROM pg_constraint
	WHERE contype = 'f' AND connamespace = 'community'::regnamespace
ORDER BY 1`,
		"community.activities to community.members", "community.communities to community.members",
		"community.direct_messages to community.members", "community.direct_messages to community.members",
		"community.events to community.communities",
		"community.memberships to community.communities", "community.memberships to community.members",
		"community.moments to community.members", "community.notifications to community.members",
		"community.one_time_passwords to community.members", "community.refresh_tokens to community.members",
		"community.scheduled_posts to community.communities", "community.scheduled_posts to community.members",
		"community.sessions to community.members")
}
