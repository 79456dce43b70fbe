package store

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Filter selects tasks. A zero field selects all.
type Filter struct {
	Type   string
	Status Status
	// Statuses selects the tasks in any of these; with Status, also those in that one.
	Statuses []Status
	Queue    string
	Entity   string
	TenantID string
	// IDPrefix is how the id begins.
	IDPrefix string
	// SpawnedBy selects the follow-ups that this task's handler asked for.
	SpawnedBy string
	// Message is text that the message contains, large and small letters as they are.
	Message string
	// From and To bound scheduled_at: From <= scheduled_at < To.
	From, To time.Time
	// FinishedFrom and FinishedTo bound finished_at in the same way, and leave out what has not ended.
	FinishedFrom, FinishedTo time.Time
	// NotArchived leaves out dead letters that somebody has dealt with.
	NotArchived bool
	// LatestFirst turns the order of a list round.
	LatestFirst bool
	// After continues a list: the last task of the page before, read with the same filter. It may be gone or moved by now.
	After *Row
	// Limit is the size of a page, 1 to 10000; 0: 100.
	Limit int
}

// What each statement that takes a filter begins its WHERE with, and $1 to $14 of it.
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
    AND ($13::text = '' OR t.archived_at IS NULL)
    AND ($14::text = '' OR t.spawned_by = $14::text)`

// args are the filter as filterSQL takes it, checked: what Postgres cannot take for a text would end the caller's transaction.
func (f Filter) args() ([]any, error) {
	if f.Limit < 0 || f.Limit > 10000 {
		return nil, invalid("limit", "must be between 1 and 10000", f.Limit)
	}
	for _, field := range []struct{ name, value string }{
		{"type", f.Type}, {"queue", f.Queue}, {"entity", f.Entity}, {"tenant_id", f.TenantID}, {"id", f.IDPrefix}, {"spawned_by", f.SpawnedBy},
	} {
		if err := checkText(field.name, field.value); err != nil {
			return nil, err
		}
	}
	if err := checkNote("message", f.Message); err != nil {
		return nil, err
	}
	among, err := f.statuses()
	if err != nil {
		return nil, err
	}
	args := []any{f.Type, among, f.Queue, f.Entity, f.TenantID, f.IDPrefix, behind(f.IDPrefix), f.Message}
	for _, bound := range []struct {
		name string
		at   time.Time
	}{{"from", f.From}, {"to", f.To}, {"finished from", f.FinishedFrom}, {"finished to", f.FinishedTo}} {
		text := ""
		if !bound.at.IsZero() {
			if text, err = timeText(bound.name, bound.at); err != nil {
				return nil, err
			}
		}
		args = append(args, text)
	}
	notArchived := ""
	if f.NotArchived {
		notArchived = "true"
	}
	return append(args, notArchived, f.SpawnedBy), nil
}

func (f Filter) limit() string {
	if f.Limit == 0 {
		return "100"
	}
	return strconv.Itoa(f.Limit)
}

// statuses binds them as one text.
func (f Filter) statuses() (string, error) {
	all := slices.Clone(f.Statuses)
	if f.Status != "" {
		all = append(all, f.Status)
	}
	words := make([]string, len(all))
	for i, status := range all {
		if !slices.Contains(Statuses(), status) {
			return "", invalid("status", "must be one of the eight words", fmt.Sprintf("%q", string(status)))
		}
		words[i] = string(status)
	}
	return strings.Join(words, ","), nil
}

// behind is the first text behind all those that begin with the prefix, in the order of their bytes; "": there is none. An index
// serves such a range, but no LIKE whose pattern it learns only when it runs.
func behind(prefix string) string {
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
