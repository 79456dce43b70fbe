package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/internal/query"
	"github.com/tasktable/tasktable/store/recurrence"
)

// Overlap is what a fire does while an earlier occurrence has not ended.
type Overlap string

// The overlap policies.
const (
	OverlapSkip          Overlap = "skip"           // the new one becomes a SKIPPED row; the default
	OverlapAllow         Overlap = "allow"          // both run
	OverlapCancelRunning Overlap = "cancel_running" // the earlier ones are cancelled
)

// CatchUp is what becomes of fires that nobody was there for.
type CatchUp string

// The catch-up policies. What does not run becomes a SKIPPED row with the reason.
const (
	CatchUpLatest CatchUp = "latest" // the latest runs; the default
	CatchUpAll    CatchUp = "all"    // each runs, up to CatchUpLimit, the latest ones
	CatchUpNone   CatchUp = "none"   // none runs
)

// What a zero field of a Recurrence stands for.
const (
	DefaultCatchUpLimit = 100
	MaxCatchUpLimit     = 10000
	maxOccurrences      = 1000000
)

// cronSyntax is what the database takes; package recurrence takes more, such as tabs.
var cronSyntax = regexp.MustCompile(`^[ -~]{1,256}$`)

// Recurrence is when a recurring task fires.
type Recurrence struct {
	// Cron is an expression of 5 or 6 fields (with seconds first), a descriptor (@daily), or "@every 90s". See
	// package recurrence for what it means where clocks change.
	Cron string
	// TimeZone is the IANA zone whose clocks Cron means; "": UTC.
	TimeZone string
	// Overlap is OverlapSkip unless set.
	Overlap Overlap
	// CatchUp is for fires missed while no leader was there; CatchUpLatest unless set.
	CatchUp CatchUp
	// CatchUpPaused is for fires missed while the task, its queue, its type or everything was paused; CatchUpNone
	// unless set.
	CatchUpPaused CatchUp
	// CatchUpLimit bounds CatchUpAll; 0: 100, at most 10,000.
	CatchUpLimit int
	// EndsAt is the last instant at which it may fire; zero: it goes on.
	EndsAt time.Time
	// MaxOccurrences is after how many occurrences it ends, skipped ones not counted; 0: it goes on, at most 1,000,000.
	MaxOccurrences int
}

// Cron is a recurring task without fields of its own, for a handler made by handlers.Func: what was a line of a
// crontab. Its id is "recurring-" and the type; set TimeZone and the rest on what it returns.
//
//	store.Cron("TOKEN_CLEANUP", "*/5 * * * *")
func Cron(taskType, expression string) Task {
	// a map of strings always encodes; Check judges the type
	payload, _ := json.Marshal(map[string]string{"type": taskType})
	return Task{ID: "recurring-" + taskType, Payload: JSON(payload), Recurrence: &Recurrence{Cron: expression}}
}

type wireRecurrence struct {
	Cron           *string `json:"cron"`
	TimeZone       *string `json:"time_zone"`
	Overlap        *string `json:"overlap"`
	CatchUp        *string `json:"catch_up"`
	CatchUpPaused  *string `json:"catch_up_paused"`
	CatchUpLimit   *int    `json:"catch_up_limit"`
	EndsAt         *string `json:"ends_at"`
	MaxOccurrences *int    `json:"max_occurrences"`
}

func (t Task) wireRecurrence(wire *wireTask) error {
	r := t.Recurrence
	if r == nil {
		return nil
	}
	if _, keyed := t.Payload.(Keyed); !keyed && t.ID == "" {
		return check.Invalid("id", "must be given for a recurring task, or its payload be Keyed", "neither")
	}
	if len(wire.ID) > MaxRecurringIDBytes {
		return check.Invalid("id", "of a recurring task must be at most 480 bytes",
			fmt.Sprintf("%d bytes", len(wire.ID)))
	}
	if _, err := recurrence.Parse(r.Cron, r.TimeZone); err != nil {
		return check.Mark(err)
	}
	if !cronSyntax.MatchString(r.Cron) {
		return check.Invalid("cron", "must be 1 to 256 printable ASCII characters", fmt.Sprintf("%.100q", r.Cron))
	}
	zone := r.TimeZone
	if zone == "" {
		zone = "UTC"
	}
	wire.Cron, wire.TimeZone = &r.Cron, &zone
	switch r.Overlap {
	case "", OverlapSkip, OverlapAllow, OverlapCancelRunning:
		wire.Overlap = check.OrNil(string(r.Overlap))
	default:
		return check.Invalid("overlap", "must be skip, allow or cancel_running", fmt.Sprintf("%q", r.Overlap))
	}
	for field, policy := range map[string]CatchUp{"catch_up": r.CatchUp, "catch_up_paused": r.CatchUpPaused} {
		switch policy {
		case "", CatchUpLatest, CatchUpAll, CatchUpNone:
		default:
			return check.Invalid(field, "must be latest, all or none", fmt.Sprintf("%q", policy))
		}
	}
	wire.CatchUp, wire.CatchUpPaused = check.OrNil(string(r.CatchUp)), check.OrNil(string(r.CatchUpPaused))
	if r.CatchUpLimit < 0 || r.CatchUpLimit > MaxCatchUpLimit {
		return check.Invalid("catch_up_limit", "must be between 1 and 10000 (0: the default, 100)", r.CatchUpLimit)
	}
	if r.MaxOccurrences < 0 || r.MaxOccurrences > maxOccurrences {
		return check.Invalid("max_occurrences", "must be between 1 and 1000000 (0: no bound)", r.MaxOccurrences)
	}
	if r.CatchUpLimit > 0 {
		wire.CatchUpLimit = &r.CatchUpLimit
	}
	if r.MaxOccurrences > 0 {
		wire.MaxOccurrences = &r.MaxOccurrences
	}
	if !r.EndsAt.IsZero() {
		ends, err := check.TimeText("ends_at", r.EndsAt)
		if err != nil {
			return err
		}
		wire.EndsAt = &ends
	}
	return nil
}

// ErrNotRecurring is returned by Backfill for a task that does not recur.
var ErrNotRecurring = errors.New("the task is not a recurring one")

// MaxBackfill is how many occurrences one Backfill makes at most.
const MaxBackfill = 10000

const backfillSQL = `
SELECT count(tasktable.fork_occurrence($1::text, fire::timestamptz, NULL, $3::text, $4::text::boolean, true))
FROM jsonb_array_elements_text($2::text::jsonb) AS fire WHERE fire::timestamptz <= clock_timestamp()`

// Backfill forks the occurrences that a recurring task would have had at its fires after from, up to and with to: at
// most `most` of them (1 to MaxBackfill), the earliest. It returns how many are new; those that exist already stay as
// they are, whether they ran or were skipped. All are due at once, without jitter, and their expiration counts from
// now; fires that are still to come are left to the leader. It returns ErrNotFound, ErrNotRecurring, or an error
// wrapping ErrInvalid.
func (s *Store) Backfill(ctx context.Context, db DB, id string, from, to time.Time, most int) (int, error) {
	if most < 1 || most > MaxBackfill {
		return 0, fmt.Errorf("backfill task %s: %w", id, check.Invalid("most", "must be between 1 and 10000", most))
	}
	if !from.Before(to) {
		return 0, fmt.Errorf("backfill task %s: %w", id, check.Invalid("from", "must be before to", from))
	}
	row, err := s.Get(ctx, db, id)
	if err != nil {
		return 0, err
	}
	if row.Cron == nil {
		return 0, fmt.Errorf("backfill task %s: %w", id, ErrNotRecurring)
	}
	rule, err := recurrence.Parse(*row.Cron, query.OrEmpty(row.TimeZone))
	if err != nil {
		return 0, fmt.Errorf("backfill task %s: %w", id, check.Mark(err))
	}
	fires, _ := rule.Anchored(row.ScheduledAt).Between(from, to, most)
	if len(fires) == 0 {
		return 0, nil
	}
	encoded, err := json.Marshal(fires)
	if err != nil {
		return 0, fmt.Errorf("backfill task %s: %w", id, err)
	}
	return query.Value[int](ctx, s.source, db, "backfill task "+id, backfillSQL, id, string(encoded), s.author(),
		s.wake(true))
}
