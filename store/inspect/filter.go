package inspect

import (
	"cmp"
	"fmt"
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
	// GroupKey is a group: store.Task.Group.
	GroupKey string
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
	// Payload selects the tasks whose payload has a text at a path: order_id=42, or items.0.sku=A1. A number and a
	// boolean are compared as JSON writes them. It reads the payloads of the tasks that the other fields leave.
	// Encrypted payloads do not match. List and Names refuse it if they would read more tasks than Search reads.
	Payload string
	// Order is the order of a list. "" means ByScheduled. Together with a Limit, the order also decides which tasks
	// Choose takes. By ByFinished, for example, these are the tasks that ended first.
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

// args returns the filter as filterSQL takes it.
func (f Filter) args() (arguments, error) {
	args := arguments{"id_prefix_end": prefixUpperBound(f.IDPrefix)}
	for _, field := range FilterFields() {
		text, err := field.text(f)
		if err != nil {
			return nil, err
		}
		args[field.Name] = text
	}
	return args, nil
}

// The sizes of a page.
const (
	defaultLimit = 100
	maxLimit     = 10000
)

// limit returns the size of a page.
func (f Filter) limit(most int) (int, error) { return pageSize(f.Limit, defaultLimit, most) }

// pageSize returns the given size of a page. 0 stands for the usual one.
func pageSize(given, usual, most int) (int, error) {
	if given < 0 || given > most {
		return 0, check.Invalid("limit", fmt.Sprintf("must be between 1 and %d", most), given)
	}
	return cmp.Or(given, usual), nil
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
