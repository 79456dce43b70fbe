package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/recurrence"
)

// Explanation tells why one task does or does not run, and the story of the task.
type Explanation struct {
	ID string `json:"id"`
	// At is the database's time when Why began to read.
	At time.Time `json:"at"`
	// Row is the task as it is now. Nil means that it was deleted or removed, or was never scheduled.
	Row *store.Row `json:"row,omitempty"`
	// Reason tells why the task does not run, or that it ran.
	Reason Reason `json:"reason"`
	// Sentence is the reason in one sentence, with its times in UTC. Call Reason.Sentence to format the times
	// differently.
	Sentence string `json:"sentence"`
	// Next lists the coming events in the order of their times. Events whose time is not known come first. Next is
	// empty if nothing will happen until somebody acts.
	Next []Upcoming `json:"next,omitempty"`
	// Story lists what has happened, oldest first.
	Story []StoryLine `json:"story"`
	// Shortened tells that lines are missing after the first one. The story has only the last 100 changes and
	// attempts.
	Shortened bool `json:"shortened,omitempty"`
	// Nearest has similar ids, if the id was never scheduled.
	Nearest []string `json:"nearest,omitempty"`

	due *time.Time // when a paused task is due after its pause
}

// Upcoming is something that will happen if nothing changes.
type Upcoming struct {
	At   *time.Time `json:"at,omitempty"` // nil if the time is not known
	Text string     `json:"text"`
}

// Known reports whether the id was ever scheduled, as far back as the history goes.
func (e Explanation) Known() bool { return e.Row != nil || len(e.Story) > 0 }

// The greatest numbers of changes, of attempts, and of occurrences that a story tells. The latest are told.
const (
	storyMost       = 100
	occurrencesMost = 10
)

// Why tells why a task does not run now, and its story: who scheduled and edited it, when it was due, when and where
// it was claimed and started, and each failure. For a deleted task Why tells the story from its history. For an id
// that was never scheduled it offers similar ids. That is not an error. The error wraps store.ErrInvalid for a
// malformed id.
//
// An application's role, as `tasktable migrate roles` defines it, can ask about the tasks that it may read. Its
// explanations have less. Nodes appear by their numbers only. The story does not tell which nodes came and went, nor
// which node has fetched a claimed task.
//
// Why runs about ten small queries, each by id. Outside of a transaction, some of them may see a change that happens
// meanwhile, and others may not.
func (i *Inspector) Why(ctx context.Context, db store.DB, id string) (Explanation, error) {
	e := Explanation{ID: id, Story: []StoryLine{}}
	if err := check.ID(id); err != nil {
		return e, fmt.Errorf("why: %w", err)
	}
	var err error
	if e.At, err = i.tasks.Now(ctx, db); err != nil {
		return e, err
	}
	row, err := i.tasks.Get(ctx, db, id)
	if err == nil {
		e.Row = &row
	} else if !errors.Is(err, store.ErrNotFound) {
		return e, err
	}
	known, err := i.lifeOf(ctx, db, &e)
	if err != nil {
		return e, err
	}
	if err := i.reason(ctx, db, &e, known); err != nil {
		return e, err
	}
	e.Reason.FollowUp = followUpText(known.followUps, e.Row != nil && e.Row.Status == store.StatusCompleted)
	e.tell(known)
	e.Next = e.next(known)
	if !e.Known() {
		if e.Nearest, err = i.nearest(ctx, db, id, known.mayRead); err != nil {
			return e, err
		}
	}
	e.Sentence = e.Reason.Sentence(func(at time.Time) string { return at.UTC().Format(time.RFC3339) })
	return e, nil
}

// WhyEntity is Why for the tasks of an entity. The explanations are sorted by scheduled_at, the earliest first. If
// the entity has more tasks than limit, they are those of the latest tasks. limit is from 1 to 100, because each task
// costs as many queries as Why does. Deleted tasks are not among them. If an entity has no tasks, WhyEntity returns
// an empty list and no error.
func (i *Inspector) WhyEntity(ctx context.Context, db store.DB, entity string, limit int) ([]Explanation, error) {
	switch {
	case entity == "":
		return nil, fmt.Errorf("why: %w", check.Invalid("entity", "must be given", "an empty one"))
	case limit < 1 || limit > maxExplained:
		return nil, fmt.Errorf("why: %w", check.Invalid("limit", fmt.Sprintf("must be between 1 and %d", maxExplained),
			limit))
	}
	rows, err := i.List(ctx, db, Filter{Entity: entity, LatestFirst: true, Limit: limit})
	if err != nil {
		return nil, err
	}
	explained := make([]Explanation, 0, len(rows))
	for _, row := range slices.Backward(rows) {
		e, err := i.Why(ctx, db, row.ID)
		if err != nil {
			return nil, fmt.Errorf("why, of entity %s: %w", entity, err)
		}
		explained = append(explained, e)
	}
	return explained, nil
}

// maxExplained is the greatest number of tasks that WhyEntity explains at once.
const maxExplained = 100

// life is everything that is known of a task besides its row.
type life struct {
	changes     []store.Change
	executions  []store.Execution
	shortened   bool
	nodes       map[int64]nodeLife // the nodes in executions, and those that could have run the task
	pauses      []pauseLife
	parent      *store.Row
	rule        *recurrence.Rule // of the task, or else of its parent; nil if there is none or it cannot be read
	occurrences []Occurrence     // the latest ones
	followUps   []FollowUp
	claim       *claimLife
	mayRead     mayRead
}

// nodeLife is a row of the table nodes.
type nodeLife struct {
	Number    int64
	Service   string
	Version   string
	Host      string
	StartedAt time.Time
	GoneAt    *time.Time // when the node ended, or was first missed
	Able      bool       // the node had the task's queue and type
}

func (n nodeLife) String() string {
	return fmt.Sprintf("node %d (%s, %s %s)", n.Number, n.Host, n.Service, n.Version)
}

// pauseLife is a row of the table pauses.
type pauseLife struct {
	store.Pause
	ResumedBy *string
	// PlannedEnd is the time at which the pause would have ended, if somebody has ended it earlier.
	PlannedEnd *time.Time
}

// until returns the end with which the pause was made. Nil means that it was made to last until somebody resumes it.
func (p pauseLife) until() *time.Time {
	if p.ResumedBy != nil {
		return p.PlannedEnd
	}
	return p.EndsAt
}

func (p pauseLife) what() string {
	if p.Scope == "all" {
		return "everything"
	}
	return p.Scope + " " + p.Name
}

// claimLife tells where a claimed task is.
type claimLife struct {
	State string     // available: no node has fetched it yet; running: a node has
	Node  *int64     // the node that has fetched it
	Since *time.Time // when that node fetched it
	// ClaimedAt and Attempt are those of the claim. The row forgets both when somebody edits the task.
	ClaimedAt time.Time
	Attempt   int
}
