package community_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers/community"
	"github.com/tasktable/tasktable/store"
)

const publishPost7 = "task-PUBLISH_SCHEDULED_POST-7"

func draft(t testing.TB) community.Post {
	return community.Post{
		ID: "7", CommunityID: "home", Author: "member-1", Body: "Hello", PublishAt: clock(t, "2035-06-01T09:00:00Z"),
	}
}

func (w *world) post(change func(tx pgx.Tx) (community.Post, error)) (post community.Post) {
	w.t.Helper()
	w.do(func(tx pgx.Tx) (err error) {
		post, err = change(tx)
		return err
	})
	return post
}

func TestAPostIsPublishedAtItsTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	post := w.post(func(tx pgx.Tx) (community.Post, error) { return w.app.CreatePost(w.ctx, tx, draft(t)) })
	if post.PublishedAt != nil {
		t.Fatal("a draft is published")
	}
	row := w.task(publishPost7)
	if !row.ScheduledAt.Equal(post.PublishAt) || row.Expiration != nil { // better late than never
		t.Errorf("at %s, expiration %v", row.ScheduledAt, row.Expiration)
	}
	late := post.PublishAt.Add(30 * 24 * time.Hour)
	w.mustRun(attempt(row, late))
	post, err := w.app.Post(w.ctx, w.pool, "7")
	if err != nil || post.PublishedAt == nil || !post.PublishedAt.Equal(late) {
		t.Errorf("%v %v", post.PublishedAt, err)
	}
}

func TestAnEditedPostMovesItsPublication(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.post(func(tx pgx.Tx) (community.Post, error) { return w.app.CreatePost(w.ctx, tx, draft(t)) })
	stale := attempt(w.task(publishPost7), time.Time{}) // an attempt that is under way
	moved := draft(t)
	moved.Body, moved.PublishAt, moved.Author = "Hello again", moved.PublishAt.Add(time.Hour), "somebody else"
	post := w.post(func(tx pgx.Tx) (community.Post, error) { return w.app.EditPost(w.ctx, tx, moved) })
	if post.Body != "Hello again" || post.Author != "member-1" {
		t.Errorf("%+v", post)
	}
	if row := w.task(publishPost7); !row.ScheduledAt.Equal(moved.PublishAt) {
		t.Errorf("at %s", row.ScheduledAt)
	}
	effects := w.mustRun(stale)
	if effects.Again == nil || !effects.Again.Equal(moved.PublishAt) {
		t.Errorf("the attempt from before the edit: %+v", effects)
	}
	if post, err := w.app.Post(w.ctx, w.pool, "7"); err != nil || post.PublishedAt != nil {
		t.Errorf("published an hour early: %v %v", post.PublishedAt, err)
	}
}

func TestAPostThatIsPublishedHasNoTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := draft(t)
	now.PublishAt = time.Time{}
	post := w.post(func(tx pgx.Tx) (community.Post, error) { return w.app.CreatePost(w.ctx, tx, now) })
	if post.PublishedAt == nil || !post.PublishedAt.Equal(post.PublishAt) {
		t.Errorf("%+v", post)
	}
	later := draft(t) // cannot take it back
	post = w.post(func(tx pgx.Tx) (community.Post, error) { return w.app.EditPost(w.ctx, tx, later) })
	if post.PublishedAt == nil || post.PublishAt.Equal(later.PublishAt) {
		t.Errorf("%+v", post)
	}
	w.noTask(publishPost7)
}

func TestADeletedPostIsNotPublished(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.post(func(tx pgx.Tx) (community.Post, error) { return w.app.CreatePost(w.ctx, tx, draft(t)) })
	underWay := attempt(w.task(publishPost7), time.Time{})
	w.do(func(tx pgx.Tx) error { return w.app.DeletePost(w.ctx, tx, "7") })
	if row := w.task(publishPost7); row.Status != store.StatusCancelled {
		t.Errorf("publication is %s", row.Status)
	}
	if effects := w.mustRun(underWay); effects.Note == "" || effects.Again != nil {
		t.Errorf("%+v", effects)
	}
}

func TestWrongPostsAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, test := range map[string]struct {
		change func(tx pgx.Tx) error
		want   error
	}{
		"no body": {func(tx pgx.Tx) error {
			_, err := w.app.CreatePost(w.ctx, tx, community.Post{CommunityID: "home", Author: "member-1"})
			return err
		}, store.ErrInvalid},
		"no author": {func(tx pgx.Tx) error {
			_, err := w.app.CreatePost(w.ctx, tx, community.Post{CommunityID: "home", Body: "Hello"})
			return err
		}, community.ErrNotFound},
		"a long id": {func(tx pgx.Tx) error {
			_, err := w.app.CreatePost(w.ctx, tx, community.Post{
				ID: string(make([]byte, 300)), CommunityID: "home", Author: "member-1", Body: "Hello",
			})
			return err
		}, store.ErrInvalid},
		"edit of none": {
			func(tx pgx.Tx) error { _, err := w.app.EditPost(w.ctx, tx, draft(t)); return err }, community.ErrNotFound,
		},
		"delete of none": {func(tx pgx.Tx) error { return w.app.DeletePost(w.ctx, tx, "7") }, community.ErrNotFound},
		"read of none": {
			func(tx pgx.Tx) error { _, err := w.app.Post(w.ctx, tx, "7"); return err }, community.ErrNotFound,
		},
	} {
		if err := w.refused(test.change); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
