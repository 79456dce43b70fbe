package community_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers/community"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

const everythingSQL = `
SELECT jsonb_build_object(
    'members', (SELECT jsonb_agg(m ORDER BY m.id) FROM community.members AS m),
    'communities', (SELECT jsonb_agg(c ORDER BY c.id) FROM community.communities AS c),
    'memberships', (SELECT jsonb_agg(m ORDER BY m.id) FROM community.memberships AS m),
    'events', (SELECT jsonb_agg(e ORDER BY e.id) FROM community.events AS e),
    'posts', (SELECT jsonb_agg(p ORDER BY p.id) FROM community.scheduled_posts AS p))::text`

const allTasksSQL = `
SELECT jsonb_build_object('tasks', jsonb_agg(t ORDER BY t.id), 'changes', (SELECT count(*)
	FROM tasktable.scheduled_task_changes))::text
FROM tasktable.scheduled_tasks AS t`

type snapshot struct{ entities, tasks string }

func look(t *testing.T, db store.DB) snapshot {
	t.Helper()
	return snapshot{texts(t, db, everythingSQL)[0], texts(t, db, allTasksSQL)[0]}
}

// changes is a call of each method that changes something of event 42, post 7 or the memberships.
func changes(start time.Time) map[string]func(w *world, tx pgx.Tx) error {
	return map[string]func(w *world, tx pgx.Tx) error{
		"CreateEvent": func(w *world, tx pgx.Tx) error {
			_, err := w.app.CreateEvent(w.ctx, tx, community.Event{
				CommunityID: "home", Title: "Picnic", StartsAt: start,
			})
			return err
		},
		"EditEvent": func(w *world, tx pgx.Tx) error {
			_, err := w.app.EditEvent(w.ctx, tx, community.Event{
				ID: "42", Title: "Picnic", StartsAt: start, ReminderBefore: 2 * time.Hour,
			})
			return err
		},
		"MoveEvent": func(w *world, tx pgx.Tx) error {
			_, err := w.app.MoveEvent(w.ctx, tx, "42", start.Add(3*time.Hour))
			return err
		},
		"DeleteEvent": func(w *world, tx pgx.Tx) error { return w.app.DeleteEvent(w.ctx, tx, "42") },
		"CreatePost": func(w *world, tx pgx.Tx) error {
			_, err := w.app.CreatePost(w.ctx, tx, community.Post{
				CommunityID: "home", Author: "member-1", Body: "Hi", PublishAt: start,
			})
			return err
		},
		"EditPost": func(w *world, tx pgx.Tx) error {
			_, err := w.app.EditPost(w.ctx, tx, community.Post{
				ID: "7", Body: "Hi again", PublishAt: start.Add(time.Hour),
			})
			return err
		},
		"DeletePost": func(w *world, tx pgx.Tx) error { return w.app.DeletePost(w.ctx, tx, "7") },
		"JoinCommunity": func(w *world, tx pgx.Tx) error {
			_, err := w.app.JoinCommunity(w.ctx, tx, "home", "outsider")
			return err
		},
		"LeaveCommunity": func(w *world, tx pgx.Tx) error {
			return w.app.LeaveCommunity(w.ctx, tx, "home", "member-2")
		},
	}
}

// Each method changes the entity and its tasks in the caller's transaction, and a rollback takes back both.
func TestARollbackLeavesNothing(t *testing.T) {
	t.Parallel()
	start := clock(t, "2035-06-01T15:00:00Z")
	for name, change := range changes(start) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.create(community.Event{ID: "42", CommunityID: "home", Title: "Meeting", StartsAt: start})
			w.do(func(tx pgx.Tx) error {
				_, err := w.app.CreatePost(w.ctx, tx, community.Post{
					ID: "7", CommunityID: "home", Author: "member-1", Body: "Hi", PublishAt: start,
				})
				return err
			})
			before := look(t, w.pool)
			thought := errors.New("better not")
			err := w.refused(func(tx pgx.Tx) error {
				if err := change(w, tx); err != nil {
					return err
				}
				if during := look(t, tx); during.entities == before.entities || during.tasks == before.tasks {
					t.Error("the entity, or its tasks, did not change at all")
				}
				return thought
			})
			if !errors.Is(err, thought) {
				t.Fatal(err)
			}
			if after := look(t, w.pool); after != before {
				t.Errorf("got  %v\nwant %v", after, before)
			}
		})
	}
}

func TestMigrateAtOnceAndAgain(t *testing.T) {
	t.Parallel()
	pool := storetest.Pool(t)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if err := community.Migrate(context.Background(), pool); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}
