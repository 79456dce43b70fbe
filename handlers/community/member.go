package community

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Member is somebody with an account.
type Member struct {
	ID    string // the caller chooses it; "": a new UUID
	Email string // the address that gets the member's e-mails
}

const addMemberSQL = `
INSERT INTO community.members (id, email) VALUES (coalesce(nullif(@id::text, ''), gen_random_uuid()::text), @email)
RETURNING id, email`

// AddMember adds a member.
func (a *App) AddMember(ctx context.Context, tx pgx.Tx, member Member) (Member, error) {
	if err := checkLine("Email", member.Email); err != nil {
		return Member{}, fmt.Errorf("add member: %w", err)
	}
	added, err := one[Member](ctx, tx, addMemberSQL, pgx.NamedArgs{"id": member.ID, "email": member.Email})
	if err != nil {
		return Member{}, fmt.Errorf("add member: %w", err)
	}
	return added, nil
}

// Community is where members meet.
type Community struct {
	ID    string // the caller chooses it; "": a new UUID
	Title string // 1 to 200 characters without control characters
	Host  string // the member who greets the new ones; there is none after the account of the host was deleted
}

const addCommunitySQL = `
INSERT INTO community.communities (id, title, host)
	VALUES (coalesce(nullif(@id::text, ''), gen_random_uuid()::text), @title, @host)
RETURNING id, title, host`

// AddCommunity adds a community without members. Its host has to join like any other member.
func (a *App) AddCommunity(ctx context.Context, tx pgx.Tx, community Community) (Community, error) {
	if err := checkLine("Title", community.Title); err != nil {
		return Community{}, fmt.Errorf("add community: %w", err)
	}
	args := pgx.NamedArgs{"id": community.ID, "title": community.Title, "host": community.Host}
	added, err := one[Community](ctx, tx, addCommunitySQL, args)
	if err != nil {
		return Community{}, fmt.Errorf("add community: %w", err)
	}
	return added, nil
}
