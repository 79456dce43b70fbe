package dashboard

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
	"github.com/tasktable/tasktable/store/when"
)

// The orders of the list. A minus means that the latest comes first.
var taskOrders = []choice{
	{Value: "-scheduled_at", Label: "scheduled, latest first"},
	{Value: "scheduled_at", Label: "scheduled, earliest first"},
	{Value: "-finished_at", Label: "ended, latest first"},
	{Value: "finished_at", Label: "ended, earliest first"},
	{Value: "id", Label: "id"},
	{Value: "-id", Label: "id, backwards"},
}

var archivedWords = []choice{
	{Value: "", Label: "archived or not"},
	{Value: "false", Label: "not archived"},
	{Value: "true", Label: "archived dead letters"},
}

// maxLongText bounds notes, and the text that is searched in messages, as the commands of tasktable do.
const maxLongText = 4096 // bytes

// The rules of the fields.
var (
	errShortText   = errors.New("must be at most 512 bytes of UTF-8 without control characters")
	errLongText    = errors.New("must be at most 4096 bytes of UTF-8 without NUL")
	errTypeName    = errors.New("must be 2 to 127 letters, digits or _-[]<>/.·:+")
	errQueueName   = errors.New("must be 1 to 64 of a-z, 0-9, inner - or _")
	errStatusWord  = errors.New("must be one of the eight statuses")
	errOrderWord   = errors.New("must be scheduled_at, finished_at or id, with - before it for the latest first")
	errBoolWord    = errors.New("must be true, false or empty")
	errPlaceInList = errors.New("must be that of the page before")
)

// filterOf reads the filter in the parameters of a page's address. The filter must not be used if there are errors.
func filterOf(values url.Values, now time.Time, zone *time.Location) (inspect.Filter, formErrors) {
	wrong := formErrors{}
	filter := inspect.Filter{
		Type: values.Get("type"), Queue: values.Get("queue"), Entity: values.Get("entity"),
		TenantID: values.Get("tenant"), IDPrefix: values.Get("id_prefix"), SpawnedBy: values.Get("spawned_by"),
		Message: values.Get("message"),
	}
	if filter.Type != "" && store.CheckType(filter.Type) != nil {
		wrong.note("type", errTypeName)
	}
	if filter.Queue != "" && store.CheckQueue(filter.Queue) != nil {
		wrong.note("queue", errQueueName)
	}
	for _, name := range []string{"entity", "tenant", "id_prefix", "spawned_by"} {
		if text := values.Get(name); text != "" && !validName(text) {
			wrong.note(name, errShortText)
		}
	}
	if !validLongText(filter.Message) {
		wrong.note("message", errLongText)
	}
	var err error
	filter.Statuses, err = statusesOf(values["status"])
	wrong.note("status", err)
	for name, into := range map[string]*time.Time{
		"scheduled_from": &filter.ScheduledFrom, "scheduled_to": &filter.ScheduledTo,
		"finished_from": &filter.FinishedFrom, "finished_to": &filter.FinishedTo,
	} {
		*into, err = when.Time(values.Get(name), now, zone)
		wrong.note(name, err)
	}
	switch values.Get("archived") {
	case "":
	case "true", "false":
		filter.Archived = new(values.Get("archived") == "true")
	default:
		wrong.note("archived", errBoolWord)
	}
	switch values.Get("waiting") {
	case "", "false":
	case "true":
		filter.Waiting = true
	default:
		wrong.note("waiting", errBoolWord)
	}
	order := orderOf(values)
	if !slices.ContainsFunc(taskOrders, func(known choice) bool { return known.Value == order }) {
		wrong.note("order", errOrderWord)
	}
	column, latest := strings.CutPrefix(order, "-")
	filter.Order, filter.LatestFirst = inspect.Order(column), latest
	if filter.After, err = decodeCursor(values.Get("after"), filter.Order); err != nil {
		wrong.note("after", err)
	}
	return filter, wrong
}

// validLongText is the rule of texts that people write.
func validLongText(text string) bool {
	return len(text) <= maxLongText && utf8.ValidString(text) && !strings.Contains(text, "\x00")
}

// orderOf returns the order of the list. Without one the latest time comes first, because most tasks of a large table
// ended long ago.
func orderOf(values url.Values) string {
	if order := values.Get("order"); order != "" {
		return order
	}
	return taskOrders[0].Value
}

// statusesOf reads statuses that are repeated, or separated by commas.
func statusesOf(given []string) ([]store.Status, error) {
	var statuses []store.Status
	for _, text := range given {
		for word := range strings.SplitSeq(text, ",") {
			status := store.Status(strings.ToUpper(strings.TrimSpace(word)))
			switch {
			case status == "" || slices.Contains(statuses, status):
			case slices.Contains(store.Statuses(), status):
				statuses = append(statuses, status)
			default:
				return nil, errStatusWord
			}
		}
	}
	return statuses, nil
}

func decodeCursor(given string, order inspect.Order) (*store.Row, error) {
	if given == "" {
		return nil, nil //nolint:nilnil // the first page has no place before it
	}
	after, err := inspect.DecodeCursor(given)
	if err != nil || order == inspect.ByFinished && after.FinishedAt == nil {
		return nil, errPlaceInList
	}
	return after, nil
}
