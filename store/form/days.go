package form

import (
	"errors"
	"strings"

	"github.com/tasktable/tasktable/store"
	rules "github.com/tasktable/tasktable/store/recurrence"
)

// anyDay stands before the options of store.Days, because a text of package recurrence begins with an expression.
const anyDay = "@daily "

// readDays reads store.Days, such as out-of=company move=previous. The empty text is none.
func readDays(text string) (*store.Days, error) {
	if text == "" {
		return nil, nil
	}
	expression, o, err := rules.Split(anyDay + text)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(expression) != strings.TrimSpace(anyDay) || o.Every > 0 || len(o.OutOf)+len(o.KeepTo) == 0 {
		return nil, errors.New("not only calendars")
	}
	return &store.Days{OutOf: o.OutOf, KeepTo: o.KeepTo, Move: o.Move}, nil
}

// daysText writes store.Days as readDays reads them.
func daysText(days *store.Days) string {
	if days == nil {
		return ""
	}
	o := rules.Options{OutOf: days.OutOf, KeepTo: days.KeepTo, Move: days.Move}
	return strings.TrimPrefix(o.Join(anyDay), anyDay)
}
