package community

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/community/contract"
	"github.com/tasktable/tasktable/store"
)

// WelcomeMessageDelay is the time between the joining of a member and the host's direct message to that member.
const WelcomeMessageDelay = 24 * time.Hour

type newcomer struct {
	MemberID    string
	JoinedAt    time.Time
	Email       string
	CommunityID string
	Title       string
	Host        string
}

// The lock makes a LeaveCommunity that runs at the same time wait for this transaction. LeaveCommunity then cancels
// the follow-ups.
const newcomerSQL = `
SELECT m.member_id, m.joined_at, p.email, c.id AS community_id, c.title,
    coalesce(c.host, m.member_id) AS host -- nobody greets where there is no host
FROM community.memberships AS m
JOIN community.members AS p ON p.id = m.member_id
JOIN community.communities AS c ON c.id = m.community_id
WHERE m.id = @id
FOR SHARE OF m`

// welcome runs WELCOME_MEMBER. It sends nothing itself. Its steps are tasks of their own, each with its own attempts.
// The transaction that completes this task schedules all of them.
func (a *App) welcome(ctx context.Context, tx pgx.Tx, t *handlers.Task[contract.WelcomeMember]) error {
	member, err := one[newcomer](ctx, tx, newcomerSQL, pgx.NamedArgs{"id": t.Payload.MembershipID})
	if errors.Is(err, ErrNotFound) {
		t.Note("membership %s is gone: nobody was welcomed", t.Payload.MembershipID)
		return nil
	}
	if err != nil {
		return fmt.Errorf("read membership %s: %w", t.Payload.MembershipID, err)
	}
	entity := entityOfMembership(t.Payload.MembershipID) // LeaveCommunity finds the follow-ups by it
	t.FollowUp(store.Task{Entity: entity, TenantID: member.CommunityID, Payload: contract.SendEmail{
		Email:   member.Email,
		Subject: "Welcome to " + member.Title,
		Body:    fmt.Sprintf("You are a member of %s now.\n", member.Title),
	}})
	if member.Host == member.MemberID {
		return nil
	}
	t.FollowUp(store.Task{
		Entity:   entity,
		TenantID: member.CommunityID,
		At:       member.JoinedAt.Add(WelcomeMessageDelay),
		Payload: contract.SendDirectMessage{
			From: member.Host,
			To:   member.MemberID,
			Text: fmt.Sprintf("How was your first day in %s? Ask me anything.", member.Title),
		},
	})
	return nil
}
