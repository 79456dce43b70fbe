package store

import (
	"cmp"
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

// Overlap decides what happens if a task fires while an earlier occurrence has not ended.
type Overlap string

// The overlap policies.
const (
	OverlapSkip          Overlap = "skip"           // the default: the new occurrence becomes a SKIPPED row
	OverlapAllow         Overlap = "allow"          // both occurrences run
	OverlapCancelRunning Overlap = "cancel_running" // the earlier occurrences are cancelled
)

// CatchUp decides what happens to missed fires.
type CatchUp string

// The catch-up policies. A missed fire that does not run becomes a SKIPPED row with the reason.
const (
	CatchUpLatest CatchUp = "latest" // the default: only the latest missed fire runs
	CatchUpAll    CatchUp = "all"    // the latest CatchUpLimit missed fires run
	CatchUpNone   CatchUp = "none"   // no missed fire runs
)

// The default and the limits of the numbers in a Recurrence.
const (
	DefaultCatchUpLimit = 100
	MaxCatchUpLimit     = 10000
	maxOccurrences      = 1000000
)

// cronSyntax is the set of expressions that the database takes. Package recurrence takes more, for example tabs.
var cronSyntax = regexp.MustCompile(`^[ -~]{1,256}$`)

// Recurrence tells when a recurring task fires. If Task.At is in the past when the task is scheduled, the fires between
// At and now are not missed fires, and no CatchUp runs them. Backfill creates their occurrences.
type Recurrence struct {
	// Cron is an expression of 5 fields, or of 6 fields with the seconds first, or a descriptor such as @daily, or a
	// period such as "@every 90s". Package recurrence explains when an expression fires on days on which clocks
	// change. It may have options behind it, such as "0 9 * * TUE every=2 from=2027-01-05", instead of the five fields
	// below.
	Cron string
	// Every makes the task fire in each Nth week, day or month alone in which Cron fires, from 2 to 1,000. The unit is
	// the week if Cron has a day of the week, else the month if it has a day of the month or a month, else the day.
	// The units count from the one that contains From, in TimeZone. 0 means each.
	Every int
	// From is the day from which Every counts. The task does not fire before it. It is needed with Every.
	From recurrence.Date
	// OutOf names calendars on whose days the task does not fire, at most 8. "workdays" is Monday to Friday, and
	// "workdays:mon-thu+sat" other days of the week. SetCalendar makes other calendars. When somebody changes one, the
	// next fire is planned anew.
	OutOf []string
	// KeepTo names calendars on whose days alone the task fires, at most 8: the days that are in each of them.
	KeepTo []string
	// Move says what becomes of a fire on a day that is out: recurrence.MoveSkip leaves it out, and MoveNext and
	// MovePrevious move it to the nearest day that is in, at most 366 days away. "" means MoveSkip.
	Move recurrence.Move
	// TimeZone is the IANA name of the zone in whose local time Cron fires. "" means UTC.
	TimeZone string
	// Overlap is the overlap policy. "" means OverlapSkip.
	Overlap Overlap
	// CatchUp is the policy for fires that were missed because there was no leader. "" means CatchUpLatest.
	CatchUp CatchUp
	// CatchUpPaused is the policy for fires that were missed because the task, its queue, its type or everything was
	// paused. "" means CatchUpNone.
	CatchUpPaused CatchUp
	// CatchUpLimit is the number of missed fires that run by CatchUpAll, at most 10,000. 0 means 100.
	CatchUpLimit int
	// EndsAt is the last instant at which the task may fire. It must not be before Task.At. The zero time means that
	// the task fires without end. A task with no fire until EndsAt is scheduled all the same, and ends without an
	// occurrence. The fires of package recurrence tell that beforehand.
	EndsAt time.Time
	// MaxOccurrences is the number of occurrences after which the task ends, at most 1,000,000. Skipped occurrences
	// do not count. 0 means that there is no limit.
	MaxOccurrences int
}

// Cron returns a recurring task that replaces a line of a crontab. Its payload has no fields of its own, so that a
// handler made by handlers.Func can run it. Its id is "recurring-" and the type. To set a TimeZone or other fields,
// change the returned Task.
//
//	store.Cron("TOKEN_CLEANUP", "*/5 * * * *")
func Cron(taskType, expression string) Task {
	// encoding a map of strings never fails, and Check checks the type
	payload, _ := json.Marshal(map[string]string{"type": taskType})
	return Task{ID: "recurring-" + taskType, Payload: JSON(payload), Recurrence: &Recurrence{Cron: expression}}
}

// text returns Cron with the options of the other fields behind it, as the column cron has it.
func (r Recurrence) text() (string, error) {
	o := recurrence.Options{Every: r.Every, From: r.From, OutOf: r.OutOf, KeepTo: r.KeepTo, Move: r.Move}
	if o.IsZero() {
		return r.Cron, nil
	}
	if _, inside, err := recurrence.Split(r.Cron); err != nil {
		return "", check.Mark(err)
	} else if !inside.IsZero() {
		return "", check.Invalid("cron", "must not have options if every, from, out_of, keep_to or move are given",
			fmt.Sprintf("%.100q", r.Cron))
	}
	return optionsText(r.Cron, o)
}

// Text returns the expression with all options behind it, which is the text of the column cron.
func (r Recurrence) Text() string {
	text, err := r.text()
	if err != nil {
		return r.Cron
	}
	return text
}

// recurrenceOf divides the text of the column cron into the fields. A text that text would write in another way stays
// whole, so that a task that is scheduled unchanged is not edited.
func recurrenceOf(cron string) Recurrence {
	expression, o, err := recurrence.Split(cron)
	if err != nil || o.Join(expression) != cron {
		return Recurrence{Cron: cron}
	}
	return Recurrence{Cron: expression, Every: o.Every, From: o.From, OutOf: o.OutOf, KeepTo: o.KeepTo, Move: o.Move}
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
	text, err := r.text()
	if err != nil {
		return err
	}
	if _, err := recurrence.Parse(text, r.TimeZone); err != nil {
		return check.Mark(err)
	}
	if !cronSyntax.MatchString(text) {
		return check.Invalid("cron", "must be 1 to 256 printable ASCII characters", fmt.Sprintf("%.100q", text))
	}
	wire.Cron, wire.TimeZone = &text, new(cmp.Or(r.TimeZone, "UTC"))
	const catchUp = "must be latest, all or none"
	if err := cmp.Or(
		choose(&wire.Overlap, "overlap", "must be skip, allow or cancel_running", r.Overlap, OverlapSkip, OverlapAllow,
			OverlapCancelRunning),
		choose(&wire.CatchUp, "catch_up", catchUp, r.CatchUp, CatchUpLatest, CatchUpAll, CatchUpNone),
		choose(&wire.CatchUpPaused, "catch_up_paused", catchUp, r.CatchUpPaused,
			CatchUpLatest, CatchUpAll, CatchUpNone),
	); err != nil {
		return err
	}
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
		if r.EndsAt.Before(t.At) {
			return check.Invalid("ends_at", "must not be before scheduled_at, because the task would never fire",
				r.EndsAt.Format(time.RFC3339Nano))
		}
		wire.EndsAt = &ends
	}
	if t.IfRunning != "" {
		return check.Invalid("if_running", "must be empty for a recurring task, which never runs itself",
			fmt.Sprintf("%q", t.IfRunning))
	}
	return nil
}

// ErrNotRecurring is wrapped by the error of Backfill for a task that does not recur.
var ErrNotRecurring = errors.New("the task is not a recurring one")

// MaxBackfill is the greatest number of occurrences that one Backfill creates.
const MaxBackfill = 10000

const backfillSQL = `
SELECT count(tasktable.fork_occurrence($1::text, fire::timestamptz, NULL, $3::text, $4::text::boolean, true))
FROM jsonb_array_elements_text($2::text::jsonb) AS fire WHERE fire::timestamptz <= clock_timestamp()`

// Backfill creates the occurrences that a recurring task would have had at its fires after from, up to and including
// to. It creates at most `most` of them, the earliest ones. most is from 1 to MaxBackfill. All new occurrences are
// due at once, without jitter, and their expiration counts from now. Backfill skips fires that are still to come,
// because the leader creates their occurrences.
//
// Backfill returns the number of new occurrences. Occurrences that exist already stay as they are, whether they ran
// or were skipped. The error wraps ErrNotFound, ErrNotRecurring or ErrInvalid if one of these is the reason.
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
	rule, err := s.ForTenant(orZero(row.TenantID)).Rule(ctx, db, *row.Cron, orZero(row.TimeZone))
	if err != nil {
		return 0, fmt.Errorf("backfill task %s: %w", id, err)
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
