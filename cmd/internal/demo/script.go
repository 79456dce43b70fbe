package demo

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers/community"
)

// step is an action of the application's users or of its operators. second counts from the beginning.
type step struct {
	second float64
	says   string
	does   func(context.Context, pgx.Tx) error
}

// script is all steps, by their seconds.
func (d *demo) script() []step {
	steps := slices.Concat(d.users(), d.operators())
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.second, b.second) })
	return steps
}

func (d *demo) users() []step {
	return []step{
		{0, "a member joins: a mail at once, a message after a day", d.join},
		{0, "a book club, drafted: published at +2 s, starts at +12 s, reminder 6 s before",
			d.create(community.Event{ID: "book-club", PublishAt: d.at(2), StartsAt: d.at(12),
				ReminderBefore: 6 * time.Second})},
		{0, "a post, drafted: published at +3 s", d.post},
		{0, "a dinner at +10 s, reminder 6 s before (and the reminder is slow)",
			d.create(community.Event{ID: "dinner", StartsAt: d.at(10), ReminderBefore: 6 * time.Second})},
		{0, "a weekly stand-up at +8 s, reminder 3 s before",
			d.create(community.Event{ID: "stand-up", StartsAt: d.at(8), ReminderBefore: 3 * time.Second,
				RepeatDays: 7})},
		{0, "a picnic at +9 s",
			d.create(community.Event{ID: "picnic", StartsAt: d.at(9), ReminderBefore: 3 * time.Second})},
		{0, "somebody enters a lecture that began an hour ago",
			d.create(community.Event{ID: "lecture", StartsAt: d.at(-3600), ReminderBefore: time.Second})},
		{0, "a hike, tomorrow", d.create(community.Event{ID: "hike", StartsAt: d.at(86400)})},
		{0, "a concert, tomorrow", d.create(community.Event{ID: "concert", StartsAt: d.at(86400)})},
		{1, "the book club moves to +15 s: its reminder moves along", d.move("book-club", 15)},
		{2, "the picnic is called off: its reminder with it", d.remove("picnic")},
		{5, "the dinner moves to +16 s while its reminder runs", d.move("dinner", 16)},
	}
}

// playScript runs each step at its second and prints the history as it grows, until the demo's time is over.
func (d *demo) playScript(ctx context.Context) error {
	fmt.Fprintf(d.Out, "The demo plays for %s; what people do is marked with »\n\n", d.Length)
	timeline := d.newTimeline()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	steps := d.script()
	for {
		elapsed := time.Since(d.began)
		for len(steps) > 0 && elapsed.Seconds() >= steps[0].second {
			fmt.Fprintf(d.Out, "%s » %s\n", d.clockText(d.start.Add(elapsed)), steps[0].says)
			if err := pgx.BeginFunc(ctx, d.Pool, func(tx pgx.Tx) error { return steps[0].does(ctx, tx) }); err != nil {
				return fmt.Errorf("%s: %w", steps[0].says, err)
			}
			steps = steps[1:]
		}
		if err := timeline.print(ctx); err != nil {
			return err
		}
		if elapsed >= d.Length {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

func (d *demo) join(ctx context.Context, tx pgx.Tx) error {
	for _, id := range []string{"host-" + d.run, "guest-" + d.run} {
		if _, err := d.app.AddMember(ctx, tx, community.Member{ID: id, Email: id + "@example.org"}); err != nil {
			return err
		}
	}
	if _, err := d.app.AddCommunity(ctx, tx, community.Community{ID: "club-" + d.run, Title: "The Club",
		Host: "host-" + d.run}); err != nil {
		return err
	}
	_, err := d.app.JoinCommunity(ctx, tx, "club-"+d.run, "guest-"+d.run)
	return err
}

func (d *demo) create(event community.Event) func(context.Context, pgx.Tx) error {
	return func(ctx context.Context, tx pgx.Tx) error {
		event.Title, event.ID, event.CommunityID = "The "+event.ID, d.eventID(event.ID), "club-"+d.run
		_, err := d.app.CreateEvent(ctx, tx, event)
		return err
	}
}

func (d *demo) post(ctx context.Context, tx pgx.Tx) error {
	_, err := d.app.CreatePost(ctx, tx, community.Post{
		ID: "post-" + d.run, CommunityID: "club-" + d.run, Author: "host-" + d.run, Body: "See you at the book club.",
		PublishAt: d.at(3),
	})
	return err
}

func (d *demo) move(name string, second float64) func(context.Context, pgx.Tx) error {
	return func(ctx context.Context, tx pgx.Tx) error {
		_, err := d.app.MoveEvent(ctx, tx, d.eventID(name), d.at(second))
		return err
	}
}

func (d *demo) remove(name string) func(context.Context, pgx.Tx) error {
	return func(ctx context.Context, tx pgx.Tx) error { return d.app.DeleteEvent(ctx, tx, d.eventID(name)) }
}
