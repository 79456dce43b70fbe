package community

import (
	"context"
	"errors"
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

const joinSQL = `
INSERT INTO community.memberships (community_id, member_id) VALUES (@community_id, @member_id)
ON CONFLICT (community_id, member_id) DO NOTHING
RETURNING id, community_id, member_id, joined_at`

const membershipSQL = `
SELECT id, community_id, member_id, joined_at FROM community.memberships WHERE community_id = @community_id
	AND member_id = @member_id`

// JoinCommunity adds a member to a community and starts the welcome. If the member belongs to the community already,
// JoinCommunity changes nothing and returns the existing membership.
func (a *App) JoinCommunity(ctx context.Context, tx pgx.Tx, communityID, memberID string) (Membership, error) {
	doing := fmt.Sprintf("join community %s as %s", communityID, memberID)
	joined, err := oneMembership(ctx, tx, joinSQL, communityID, memberID)
	if errors.Is(err, pgx.ErrNoRows) {
		joined, err = oneMembership(ctx, tx, membershipSQL, communityID, memberID)
		if err != nil {
			return Membership{}, described(err, doing)
		}
		return joined, nil
	}
	if err != nil {
		return Membership{}, described(err, doing)
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
	left, err := oneMembership(ctx, tx, leaveSQL, communityID, memberID)
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("%s: %w", doing, ErrNotFound)
	}
	if err != nil {
		return described(err, doing)
	}
	if _, err := a.tasks.Sync(ctx, tx, entityOfMembership(left.ID)); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

func oneMembership(ctx context.Context, tx pgx.Tx, statement, communityID, memberID string) (Membership, error) {
	rows, err := tx.Query(ctx, statement, pgx.NamedArgs{"community_id": communityID, "member_id": memberID})
	if err != nil {
		return Membership{}, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Membership])
}
