package community

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers/community/contract"
	"github.com/tasktable/tasktable/store"
)

// Membership says that a member belongs to a community.
type Membership struct {
	ID          string
	CommunityID string
	MemberID    string
	JoinedAt    time.Time
}

func entityOfMembership(id string) string { return "membership:" + id }

// The update changes nothing. It makes the statement return the membership that exists already.
const joinSQL = `
INSERT INTO community.memberships (community_id, member_id) VALUES (@community_id, @member_id)
ON CONFLICT (community_id, member_id) DO UPDATE SET member_id = excluded.member_id
RETURNING id, community_id, member_id, joined_at`

// JoinCommunity adds a member to a community and starts the welcome. If the member belongs to the community already,
// JoinCommunity changes nothing and returns the existing membership: its welcome has the same id, so it is not
// scheduled twice.
func (a *App) JoinCommunity(ctx context.Context, tx pgx.Tx, communityID, memberID string) (Membership, error) {
	doing := fmt.Sprintf("join community %s as %s", communityID, memberID)
	args := pgx.NamedArgs{"community_id": communityID, "member_id": memberID}
	joined, err := one[Membership](ctx, tx, joinSQL, args)
	if err != nil {
		return Membership{}, fmt.Errorf("%s: %w", doing, err)
	}
	if _, err := a.tasks.Schedule(ctx, tx, store.Task{
		Payload:  contract.WelcomeMember{MembershipID: joined.ID},
		Entity:   entityOfMembership(joined.ID),
		TenantID: communityID,
	}); err != nil {
		return Membership{}, fmt.Errorf("%s: %w", doing, err)
	}
	return joined, nil
}

const leaveSQL = `
DELETE FROM community.memberships WHERE community_id = @community_id AND member_id = @member_id
RETURNING id, community_id, member_id, joined_at`

// LeaveCommunity ends a membership and cancels the steps of the welcome that have not run yet.
func (a *App) LeaveCommunity(ctx context.Context, tx pgx.Tx, communityID, memberID string) error {
	doing := fmt.Sprintf("leave community %s as %s", communityID, memberID)
	args := pgx.NamedArgs{"community_id": communityID, "member_id": memberID}
	left, err := one[Membership](ctx, tx, leaveSQL, args)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if _, err := a.tasks.Sync(ctx, tx, entityOfMembership(left.ID)); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}
