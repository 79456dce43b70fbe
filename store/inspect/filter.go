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

// Filter selects tasks. A task must match all fields that are set. A field that is zero matches every task.
type Filter struct {
	Type string
	// Statuses selects the tasks whose status is one of these.
	Statuses []store.Status
	Queue    string
	Entity   string
	TenantID string
	// IDPrefix is the beginning of the id.
	IDPrefix string
	// SpawnedBy is the id of a task. It selects the follow-ups that the handler of this task asked for.
	SpawnedBy string
	// ParentID is the id of a recurring task. It selects its occurrences.
	ParentID string
	// Message is a text that the task's message contains. Upper and lower case letters differ.
	Message string
	// Pattern selects the tasks whose message has this pattern. Group.Pattern has the pattern of a group.
	Pattern string
	// ScheduledFrom and ScheduledTo bound scheduled_at: ScheduledFrom <= scheduled_at < ScheduledTo.
	ScheduledFrom, ScheduledTo time.Time
	// FinishedFrom and FinishedTo bound finished_at in the same way. They exclude tasks that have not ended.
	FinishedFrom, FinishedTo time.Time
	// Archived selects archived dead letters if it is true, and all other tasks if it is false. Nil selects both.
	Archived *bool
	// Waiting selects the tasks that their handler puts off because something is out of order, as in the view
	// waiting_tasks.
	Waiting bool
	// Order is the order of a list. "" means ByScheduled. Together with a Limit, the order also decides which tasks
	// Names selects for Apply. By ByFinished, for example, these are the tasks that ended first.
	Order Order
	// LatestFirst reverses the order of a list.
	LatestFirst bool
	// After continues a list after the last task of the previous page. That page must have been read with the same
	// filter. The task may have changed since, or no longer exist.
	After *store.Row
	// Limit is the maximum number of tasks in a page. It is from 1 to 10000, or from 1 to MaxNames for Names. 0 means
	// 100.
	Limit int
}

// Order is an order of tasks.
type Order string

// The orders. Tasks of the same time are ordered by their ids.
const (
	ByScheduled Order = "scheduled_at"
	ByFinished  Order = "finished_at" // excludes tasks that have not ended
	ByID        Order = "id"
)

// DeadLetters returns the filter of the dead letters. These are the tasks that are FAILED or EXPIRED and that nobody
// has archived. The one that ended first comes first.
func DeadLetters() Filter {
	return Filter{Statuses: deadStatuses(), Archived: new(false), Order: ByFinished}
}

func deadStatuses() []store.Status { return []store.Status{store.StatusFailed, store.StatusExpired} }

// filterSQL begins the WHERE clause of each statement that takes a filter. It uses $1 to $17.
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
    AND ($14::text = '' OR t.spawned_by = $14::text)
    AND ($15::text = '' OR t.parent_id = $15::text)
    AND ($16::text = 'false' OR ` + isWaiting + `)
    AND ($17::text = '' OR tasktable.message_pattern(t.message) = $17::text)`

// isWaiting is the condition of the index scheduled_tasks_put_off.
const isWaiting = `t.waiting_since IS NOT NULL AND t.next_attempt_at IS NOT NULL`

// args returns the filter as filterSQL takes it. It checks the fields, because a text that Postgres refuses would
// abort the caller's transaction.
func (f Filter) args() ([]any, error) {
	for _, field := range []struct{ name, value string }{
		{"type", f.Type}, {"queue", f.Queue}, {"entity", f.Entity}, {"tenant_id", f.TenantID}, {"id", f.IDPrefix},
		{"spawned_by", f.SpawnedBy}, {"parent_id", f.ParentID},
	} {
		if err := check.Text(field.name, field.value); err != nil {
			return nil, err
		}
	}
	for name, value := range map[string]string{"message": f.Message, "pattern": f.Pattern} {
		if err := check.Note(name, value); err != nil {
			return nil, err
		}
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
	return append(args, archived, f.SpawnedBy, f.ParentID, strconv.FormatBool(f.Waiting), f.Pattern), nil
}

// statuses returns the statuses as one text, because every driver can bind text.
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

// The sizes of a page.
const (
	defaultLimit = 100
	maxLimit     = 10000
)

// limit returns the size of a page.
func (f Filter) limit(most int) (int, error) {
	switch {
	case f.Limit == 0:
		return defaultLimit, nil
	case f.Limit < 0 || f.Limit > most:
		return 0, check.Invalid("limit", fmt.Sprintf("must be between 1 and %d", most), f.Limit)
	}
	return f.Limit, nil
}

// prefixUpperBound returns the first text, in the order of bytes, after all texts that begin with the prefix. If there
// is none, it returns a text after all ids. It returns "" for no prefix. Postgres can use an index for such a range,
// but not for a LIKE whose pattern it learns only when the statement runs.
func prefixUpperBound(prefix string) string {
	if prefix == "" {
		return ""
	}
	for prefix != "" {
		last, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		if last == utf8.MaxRune {
			continue
		}
		if last++; !utf8.ValidRune(last) { // skip the surrogates
			last = 0xe000
		}
		return prefix + string(last)
	}
	return afterAllIDs
}
