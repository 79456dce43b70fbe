package dashboard

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tasktable/tasktable/store"
)

// changeView is one change of a task, with the fields that differ.
type changeView struct {
	store.Change

	Fields []fieldView
}

// fieldView is a field before and after a change. "" stands for no value.
type fieldView struct {
	Name     string
	Old, New string
}

func (v *visit) changeViewOf(change store.Change) changeView {
	return changeView{change, v.fieldsOf(change.Old, change.New)}
}

// changesFolded is the newest of the changes of one act, such as a cancel of many tasks.
type changesFolded struct {
	store.Change
	Others int  // how many more tasks the act has changed
	More   bool // there may be more than that
}

// foldWithin is how long after another a change belongs to the same act. Each act has one transaction, but the changes
// have times of their own.
const foldWithin = time.Second

// foldChanges makes one line of changes that follow each other by the same person, with the same verb and outcome. The
// newest comes first. cut tells that there are changes before the oldest of these.
func foldChanges(changes []store.Change, most int, cut bool) (folded []changesFolded) {
	var latest time.Time // of the last change in the last line
	for _, change := range changes {
		last := len(folded) - 1
		if last >= 0 && folded[last].ChangedBy == change.ChangedBy && folded[last].Verb == change.Verb &&
			folded[last].Outcome == change.Outcome && latest.Sub(change.ChangedAt) < foldWithin {
			folded[last].Others++
		} else if len(folded) == most {
			return folded
		} else {
			folded = append(folded, changesFolded{Change: change})
		}
		latest = change.ChangedAt
	}
	if len(folded) > 0 && cut {
		folded[len(folded)-1].More = true
	}
	return folded
}

// fieldsOf lists the fields that differ. Payloads are named, but not shown, because they may be hidden from the person.
func (v *visit) fieldsOf(before, after json.RawMessage) []fieldView {
	var was, is map[string]json.RawMessage
	_ = json.Unmarshal(before, &was) // null, or an object that Postgres made
	_ = json.Unmarshal(after, &is)
	names := map[string]bool{}
	for _, fields := range []map[string]json.RawMessage{was, is} {
		for name := range fields {
			names[name] = true
		}
	}
	var fields []fieldView
	for _, name := range slices.Sorted(maps.Keys(names)) {
		field := fieldView{Name: name, Old: plain(was[name]), New: plain(is[name])}
		if bytes.Equal(was[name], is[name]) {
			continue
		}
		if strings.HasSuffix(name, "_at") || strings.HasSuffix(name, "_until") {
			field.Old, field.New = v.timeOrText(field.Old), v.timeOrText(field.New)
		}
		if name == "payload" || name == "result" {
			field.Old, field.New = "", "edited"
		}
		fields = append(fields, field)
	}
	return fields
}

// timeOrText writes a time of Postgres in the person's zone. Another text stays as it is.
func (v *visit) timeOrText(text string) string {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return v.exact(at)
	}
	return text
}

// plain is a JSON value as people write it: a text without quotes, and nothing for null.
func plain(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	if string(value) == "null" {
		return ""
	}
	return string(value)
}
