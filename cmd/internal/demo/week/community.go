package week

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// event is an event whose reminder is to come.
type event struct {
	id       string
	reminder *task
	before   time.Duration
}

// The first two remove what an earlier week wrote. Members and communities stay, because messages and notifications
// refer to them.
const (
	forgetPostsSQL  = `DELETE FROM community.scheduled_posts WHERE community_id = ANY ($1)`
	forgetEventsSQL = `DELETE FROM community.events WHERE community_id = ANY ($1)`
	addMembersSQL   = `
INSERT INTO community.members (id, email) SELECT * FROM unnest($1::text[], $2::text[]) ON CONFLICT DO NOTHING`
	addCommunitiesSQL = `
INSERT INTO community.communities (id, title, host) SELECT id, id, $2 FROM unnest($1::text[]) AS id
ON CONFLICT DO NOTHING`
	addMembershipsSQL = `
INSERT INTO community.memberships (community_id, member_id)
SELECT c.id, m.id FROM unnest($1::text[]) WITH ORDINALITY AS c (id, place)
JOIN unnest($2::text[]) WITH ORDINALITY AS m (id, place) ON m.place % 6 = c.place % 6 ON CONFLICT DO NOTHING`
	addEventSQL = `
INSERT INTO community.events (id, community_id, title, starts_at, starts_local, time_zone, repeat_days,
    reminder_before, publish_at, published_at)
VALUES ($1, $2, 'Event ' || $1, $3, $3::timestamptz AT TIME ZONE 'UTC', 'UTC', 0, $4, $5, $5)`
	addPostSQL = `
INSERT INTO community.scheduled_posts (id, community_id, author, body, publish_at)
VALUES ($1, $2, $3, 'A post of the week.', $4)`
)

// writeCommunity writes what the handlers of the coming tasks read.
func (w *week) writeCommunity(ctx context.Context, tx pgx.Tx) error {
	ids, addresses := make([]string, members), make([]string, members)
	for i := range ids {
		ids[i], addresses[i] = memberID(i), addressOf(memberID(i))
	}
	var batch pgx.Batch
	batch.Queue(forgetPostsSQL, tenants)
	batch.Queue(forgetEventsSQL, tenants)
	batch.Queue(addMembersSQL, ids, addresses)
	batch.Queue(addCommunitiesSQL, tenants, memberID(host))
	batch.Queue(addMembershipsSQL, tenants, ids)
	for _, e := range w.events {
		r := e.reminder
		batch.Queue(addEventSQL, e.id, r.tenant, r.scheduledAt.Add(e.before), e.before, r.createdAt)
	}
	for _, t := range w.posts {
		batch.Queue(addPostSQL, t.payload["scheduled_post_id"], t.tenant, memberID(host), t.scheduledAt)
	}
	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("write the community: %w", err)
	}
	return nil
}
