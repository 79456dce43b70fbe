package community

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers/community/contract"
	"github.com/tasktable/tasktable/store"
)

// Post is a post that is written now and published later.
type Post struct {
	// ID is chosen by the caller: 1 to 200 characters without control characters. Default ("") in CreatePost: a new
	// UUID.
	ID string
	// CommunityID is the community that the post is published in. EditPost does not change it.
	CommunityID string
	// Author is the id of the member who wrote it. EditPost does not change it.
	Author string
	// Body is the text of the post. It is required.
	Body string
	// PublishAt is when the draft is published. Default (zero): at once. It has no effect on a published post.
	PublishAt time.Time
	// PublishedAt is when the post was published. Nil means that it is a draft. The caller reads it and never sets
	// it.
	PublishedAt *time.Time
}

func entityOfPost(id string) string { return "post:" + id }

// tasks returns the publication of a draft. It has no expiration, because late is better than never.
func (p Post) tasks() []store.Task {
	if p.PublishedAt != nil {
		return nil
	}
	return []store.Task{{
		Payload:  contract.PublishScheduledPost{ScheduledPostID: p.ID},
		At:       p.PublishAt,
		TenantID: p.CommunityID,
	}}
}

func (p Post) checked() (Post, error) {
	p.PublishAt = micros(p.PublishAt)
	if p.ID != "" {
		if err := checkLine("ID", p.ID); err != nil {
			return Post{}, err
		}
	}
	return p, checkText("Body", p.Body)
}

const createPostSQL = `
INSERT INTO community.scheduled_posts (id, community_id, author, body, publish_at, published_at)
VALUES (coalesce(nullif(@id::text, ''), gen_random_uuid()::text), @community_id, @author, @body,
    coalesce(@publish_at::timestamptz, now()), CASE WHEN @publish_at::timestamptz IS NULL THEN now() END)
RETURNING id, community_id, author, body, publish_at, published_at`

// CreatePost adds a post and schedules its publication. It returns the saved post, with its id.
func (a *App) CreatePost(ctx context.Context, tx pgx.Tx, post Post) (Post, error) {
	return a.savePost(ctx, tx, "create post", createPostSQL, post)
}

const editPostSQL = `
UPDATE community.scheduled_posts SET body = @body,
    publish_at = CASE WHEN published_at IS NULL THEN coalesce(@publish_at::timestamptz, now()) ELSE publish_at END,
    published_at = CASE WHEN published_at IS NULL AND @publish_at::timestamptz IS NULL THEN now() ELSE published_at END
WHERE id = @id
RETURNING id, community_id, author, body, publish_at, published_at`

// EditPost gives the post with that id another body and time, and moves its publication too.
func (a *App) EditPost(ctx context.Context, tx pgx.Tx, post Post) (Post, error) {
	return a.savePost(ctx, tx, "edit post "+post.ID, editPostSQL, post)
}

func (a *App) savePost(ctx context.Context, tx pgx.Tx, doing, statement string, post Post) (Post, error) {
	post, err := post.checked()
	if err != nil {
		return Post{}, fmt.Errorf("%s: %w", doing, err)
	}
	saved, err := one[Post](ctx, tx, statement, pgx.NamedArgs{
		"id":           post.ID,
		"community_id": post.CommunityID,
		"author":       post.Author,
		"body":         post.Body,
		"publish_at":   orNull(post.PublishAt),
	})
	if err != nil {
		return Post{}, fmt.Errorf("%s: %w", doing, err)
	}
	if _, err := a.tasks.Sync(ctx, tx, entityOfPost(saved.ID), saved.tasks()...); err != nil {
		return Post{}, fmt.Errorf("%s: %w", doing, err)
	}
	return saved, nil
}

const deletePostSQL = `DELETE FROM community.scheduled_posts WHERE id = @id`

// DeletePost removes a post and cancels its publication.
func (a *App) DeletePost(ctx context.Context, tx pgx.Tx, id string) error {
	if err := a.deleteOne(ctx, tx, deletePostSQL, id, entityOfPost(id)); err != nil {
		return fmt.Errorf("delete post %s: %w", id, err)
	}
	return nil
}

const postSQL = `
SELECT id, community_id, author, body, publish_at, published_at FROM community.scheduled_posts WHERE id = $1`

// Post reads a post. It returns an error that wraps ErrNotFound if there is none.
func (a *App) Post(ctx context.Context, db store.DB, id string) (Post, error) {
	post, err := one[Post](ctx, db, postSQL, id)
	if err != nil {
		return Post{}, fmt.Errorf("read post %s: %w", id, err)
	}
	return post, nil
}

func lockPost(ctx context.Context, tx pgx.Tx, id string) (Post, error) {
	return one[Post](ctx, tx, postSQL+" FOR UPDATE", id)
}
