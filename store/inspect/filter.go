package inspect

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/check"
)

// Filter selects tasks. A zero field selects all.
type Filter struct {
	Type string
	// Statuses selects the tasks in any of these.
	Statuses []store.Status
	Queue    string
	Entity   string
	TenantID string
	// IDPrefix is how the id begins.
	IDPrefix string
	// SpawnedBy selects the follow-ups that this task's handler asked for.
	SpawnedBy string
	// Message is text that the message contains. Large and small letters differ.
	Message string
	// ScheduledFrom and ScheduledTo bound scheduled_at: ScheduledFrom <= scheduled_at < ScheduledTo.
	ScheduledFrom, ScheduledTo time.Time
	// FinishedFrom and FinishedTo bound finished_at in the same way, and leave out tasks that have not ended.
	FinishedFrom, FinishedTo time.Time
	// Archived selects the dead letters that somebody has archived, if it is true, and all other tasks, if it is
	// false. Nil selects both.
	Archived *bool
	// Order is the order of a list. ByFinished and a Limit also decide which tasks Names selects for Apply: those
	// that ended first. "" is ByScheduled.
	Order Order
	// LatestFirst reverses the order of a list.
	LatestFirst bool
	// After continues a list. It is the last task of the page before, which was read with the same filter. The task
	// may be gone or moved by now.
	After *store.Row
	// Limit is the size of a page, 1 to 10000, and of Names 1 to MaxNames. 0: 100.
	Limit int
}

// Order is an order of tasks.
type Order string

// The orders. Tasks of one time are ordered by their ids.
const (
	ByScheduled Order = "scheduled_at"
	ByFinished  Order = "finished_at" // leaves out tasks that have not ended
	ByID        Order = "id"
)

// DeadLetters is the filter of dead letters: tasks that are FAILED or EXPIRED and that nobody has archived, the one
// that ended first before the others.
func DeadLetters() Filter {
	return Filter{Statuses: deadStatuses(), Archived: new(false), Order: ByFinished}
}

func deadStatuses() []store.Status { return []store.Status{store.StatusFailed, store.StatusExpired} }

// Each statement that takes a filter begins its WHERE with this. It uses $1 to $14.
const filterSQL = `($1::text = '' OR t.type = $1::text)
    AND ($2::text = '' OR t.status = ANY (string_to_array($2::text, ',')))
    AND ($3::text = '' OR t.queue = $3::text)
    AND ($4::text = '' OR t.entity = $4::text)
    AND ($5::text = '' OR t.tenant_id = $5::text)
    AND ($6::text = '' OR t.id >= $6::text)
    AND ($7::text = '' OR t.id < $7::text)
    AND ($8::text = '' OR position($8::text IN t.message) > 0)
    AND ($9::text = '' OR t.scheduled_at >= $9::text::timestamptz)
    AND ($10::text = '' OR t.scheduled_at < $10::text::timestamptz)
    AND ($11::text = '' OR t.finished_at >= $11::text::timestamptz)
    AND ($12::text = '' OR t.finished_at < $12::text::timestamptz)
    AND ($13::text = '' OR (t.archived_at IS NOT NULL) = $13::text::boolean)
    AND ($14::text = '' OR t.spawned_by = $14::text)`

// args are the filter as filterSQL takes it. They are checked, because a text that Postgres refuses would end the
// caller's transaction.
func (f Filter) args() ([]any, error) {
	for _, field := range []struct{ name, value string }{
		{"type", f.Type}, {"queue", f.Queue}, {"entity", f.Entity}, {"tenant_id", f.TenantID}, {"id", f.IDPrefix},
		{"spawned_by", f.SpawnedBy},
	} {
		if err := check.Text(field.name, field.value); err != nil {
			return nil, err
		}
	}
	if err := check.Note("message", f.Message); err != nil {
		return nil, err
	}
	among, err := f.statuses()
	if err != nil {
		return nil, err
	}
	args := []any{f.Type, among, f.Queue, f.Entity, f.TenantID, f.IDPrefix, prefixUpperBound(f.IDPrefix), f.Message}
	for _, bound := range []struct {
		name string
		at   time.Time
	}{
		{"scheduled from", f.ScheduledFrom}, {"scheduled to", f.ScheduledTo},
		{"finished from", f.FinishedFrom}, {"finished to", f.FinishedTo},
	} {
		text, err := check.BoundText(bound.name, bound.at)
		if err != nil {
			return nil, err
		}
		args = append(args, text)
	}
	archived := ""
	if f.Archived != nil {
		archived = strconv.FormatBool(*f.Archived)
	}
	return append(args, archived, f.SpawnedBy), nil
}

// statuses binds them as one text.
func (f Filter) statuses() (string, error) {
	words := make([]string, len(f.Statuses))
	for i, status := range f.Statuses {
		if !slices.Contains(store.Statuses(), status) {
			return "", check.Invalid("status", "must be one of the eight words", fmt.Sprintf("%q", string(status)))
		}
		words[i] = string(status)
	}
	return strings.Join(words, ","), nil
}

// limit is the size of a page.
func (f Filter) limit(most int) (string, error) {
	switch {
	case f.Limit == 0:
		return "100", nil
	case f.Limit < 0 || f.Limit > most:
		return "", check.Invalid("limit", fmt.Sprintf("must be between 1 and %d", most), f.Limit)
	}
	return strconv.Itoa(f.Limit), nil
}

// prefixUpperBound is the first text after all those that begin with the prefix, in the order of their bytes. "":
// there is none. An index serves a range like that, but no LIKE whose pattern Postgres learns only when the statement
// runs.
func prefixUpperBound(prefix string) string {
	for prefix != "" {
		last, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		if last == utf8.MaxRune {
			continue
		}
		if last++; !utf8.ValidRune(last) { // the surrogates
			last = 0xe000
		}
		return prefix + string(last)
	}
	return ""
}
