package inspect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/check"
)

// Explanation is the life of one task as a story, and why it does or does not run.
type Explanation struct {
	ID string `json:"id"`
	// At is the database's clock when it was read.
	At time.Time `json:"at"`
	// Row is the task as it is now; nil: there is none, whether it was deleted or never scheduled.
	Row *store.Row `json:"row,omitempty"`
	// Reason is why the task does not run, or that it has.
	Reason Reason `json:"reason"`
	// Sentence is the reason in one sentence, with times of UTC. Reason.Sentence has others.
	Sentence string `json:"sentence"`
	// Next is what comes next, the earliest first; empty: nothing, unless somebody does something.
	Next []Upcoming `json:"next,omitempty"`
	// Story is what has happened, oldest first.
	Story []StoryLine `json:"story"`
	// Shortened says that between the first line and the others there were more: of changes and attempts the last 100
	// are told.
	Shortened bool `json:"shortened,omitempty"`
	// Nearest are ids like the one asked for, where that was never scheduled.
	Nearest []string `json:"nearest,omitempty"`
}

// Upcoming is something that will happen as things are.
type Upcoming struct {
	At   *time.Time `json:"at,omitempty"` // nil: it is not known when
	Text string     `json:"text"`
}

// Known says whether the id was ever scheduled, as far as the history goes back.
func (e Explanation) Known() bool { return e.Row != nil || len(e.Story) > 0 }

// How many of the latest changes, of the latest attempts, and of the latest occurrences are told.
const (
	storyMost       = 100
	occurrencesMost = 10
)

// Why tells the life of a task: who scheduled and edited it, when it was due, claimed and started, and where, each
// failure, and why it does not run now. Of a deleted task the history tells. For an id that was never scheduled there
// are ids like it.
//
// An application's role, as the script of the roles makes it, may ask about the tasks that it may read. It is told
// less: nodes have their numbers only, and the story has neither nodes that came and went nor the node that has
// fetched a claimed task.
//
// Why is some ten small queries, each by id. Outside of a transaction, a change that happens meanwhile may show in
// some of them and not in others.
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

// life is all that is known of a task besides its row.
type life struct {
	changes     []store.Change
	executions  []store.Execution
	shortened   bool
	nodes       map[int64]nodeLife // those in the executions, and those that could have run it
	pauses      []pauseLife
	parent      *store.Row
	occurrences []occurrenceLife // the latest
	followUps   []FollowUp
	claim       *claimLife
	mayRead     mayRead
}

// nodeLife is a line of nodes.
type nodeLife struct {
	Number    int64
	Service   string
	Version   string
	Host      string
	StartedAt time.Time
	GoneAt    *time.Time // when it ended, or was first missed
	Able      bool       // it had the task's queue and type
}

func (n nodeLife) String() string {
	return fmt.Sprintf("node %d (%s, %s %s)", n.Number, n.Host, n.Service, n.Version)
}

// pauseLife is a line of pauses.
type pauseLife struct {
	Scope     string
	Name      string
	PausedAt  time.Time
	PausedBy  string
	EndsAt    *time.Time
	ResumedBy *string
	Reason    *string
	// PlannedEnd is when a pause that somebody ended would have ended by itself.
	PlannedEnd *time.Time
}

// until is the end that the pause was made with; nil: it was to last until somebody resumed it.
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

// occurrenceLife is what is told of an occurrence where its parent is asked for.
type occurrenceLife struct {
	ID          string
	Status      store.Status
	ScheduledAt time.Time
	StartedAt   *time.Time
	FinishedAt  *time.Time
	CreatedAt   time.Time
	Message     *string
}

// claimLife is where a claimed task is.
type claimLife struct {
	State string     // available: no node has taken it up yet; running: one has
	Node  *int64     // which
	Since *time.Time // since when it has it
	// ClaimedAt and Attempt are of the claim. The row forgets both when somebody edits the task.
	ClaimedAt time.Time
	Attempt   int
}
