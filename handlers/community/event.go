package community

import (
	"fmt"
	"math"
	"time"

	"github.com/tasktable/tasktable/handlers/community/contract"
	"github.com/tasktable/tasktable/store"
)

// DefaultReminderBefore is how long before its start members are reminded of an event that does not say otherwise.
const DefaultReminderBefore = time.Hour

const (
	defaultDuration   = time.Hour
	minDuration       = time.Second
	maxDuration       = 31 * 24 * time.Hour // unfinishedSQL says it again
	minReminderBefore = time.Second
	maxReminderBefore = 30 * 24 * time.Hour
	maxRepeatDays     = 366
)

// EventStatus is whether an event has taken place.
type EventStatus string

// The statuses of an event. A recurring event is live during each occurrence, upcoming between them, and never
// finished.
const (
	EventUpcoming EventStatus = "upcoming" // until StartsAt
	EventLive     EventStatus = "live"     // from StartsAt on, for Duration
	EventFinished EventStatus = "finished" // after that
)

// Event is an event of a community.
type Event struct {
	// ID is chosen by the caller, 1 to 200 characters without control characters. "" at CreateEvent: a new UUID.
	ID string
	// CommunityID is whose event it is. EditEvent leaves it as it is.
	CommunityID string
	// Title is 1 to 200 characters without control characters.
	Title string
	// StartsAt is required. Of a recurring event it is the start of the occurrence that members have not been
	// reminded of yet.
	StartsAt time.Time
	// TimeZone is an IANA name, as Europe/Berlin: a recurring event keeps its time on the clocks there. "": UTC.
	TimeZone string
	// Duration is how long it takes, 1 s to 31 days. 0: one hour.
	Duration time.Duration
	// RepeatDays is after how many days the event recurs, as 7 for weekly, at most 366. 0: it does not.
	RepeatDays int
	// ReminderBefore is how long before its start members are reminded, 1 s to 30 days. 0: one hour.
	ReminderBefore time.Duration
	// PublishAt is when a draft is published, not after StartsAt. Zero: at once. It has no effect on a published event.
	PublishAt time.Time
	// Lat and Lon are where it takes place, in degrees; both nil: nowhere in particular.
	Lat, Lon *float64
	// PublishedAt is when the event was published; nil: it is a draft. It is read, never set by the caller.
	PublishedAt *time.Time
	// Status is whether it has taken place, as of the last STATUS_UPDATE. It is read, never set by the caller.
	Status EventStatus
}

// ReminderAt is when the reminder is due.
func (e Event) ReminderAt() time.Time { return e.StartsAt.Add(-e.ReminderBefore) }

// eventRow is an Event as it is stored.
type eventRow struct {
	Event
	StartsLocal time.Time // what the calendar shows, as a time in UTC
}

func entityOfEvent(id string) string { return "event:" + id }

// tasks is all that is to happen to the event in future: Sync makes its tasks exactly these.
func (e Event) tasks() []store.Task {
	reminder := store.Task{Payload: contract.SendEventReminder{EventID: e.ID}, At: e.ReminderAt(), TenantID: e.CommunityID}
	if e.RepeatDays == 0 {
		// No reminder of what has started. A recurring event must not expire: its reminder schedules the next one, so
		// an outage of more than an hour would end the series for good. There the handler skips what has started.
		reminder.Expiration = e.ReminderBefore
	}
	if e.PublishedAt != nil {
		return []store.Task{reminder}
	}
	publish := store.Task{Payload: contract.PublishEvent{EventID: e.ID}, At: e.PublishAt, TenantID: e.CommunityID}
	return []store.Task{publish, reminder}
}

// checked is the event with its defaults filled in, and its time zone.
func (e Event) checked() (Event, *time.Location, error) {
	e.StartsAt, e.PublishAt = micros(e.StartsAt), micros(e.PublishAt)
	e.ReminderBefore, e.Duration = e.ReminderBefore.Truncate(time.Microsecond), e.Duration.Truncate(time.Microsecond)
	if e.TimeZone == "" {
		e.TimeZone = "UTC"
	}
	if e.ReminderBefore == 0 {
		e.ReminderBefore = DefaultReminderBefore
	}
	if e.Duration == 0 {
		e.Duration = defaultDuration
	}
	if e.ID != "" {
		if err := checkLine("ID", e.ID); err != nil {
			return Event{}, nil, err
		}
	}
	if err := checkLine("Title", e.Title); err != nil {
		return Event{}, nil, err
	}
	if e.StartsAt.IsZero() {
		return Event{}, nil, invalid("StartsAt", "is required", "the zero time")
	}
	if e.Duration < minDuration || e.Duration > maxDuration {
		return Event{}, nil, invalid("Duration", "must be between 1 s and 31 days (0: 1 h)", e.Duration)
	}
	if err := e.checkPlace(); err != nil {
		return Event{}, nil, err
	}
	if e.RepeatDays < 0 || e.RepeatDays > maxRepeatDays {
		return Event{}, nil, invalid("RepeatDays", "must be between 0 and 366", e.RepeatDays)
	}
	if e.ReminderBefore < minReminderBefore || e.ReminderBefore > maxReminderBefore {
		return Event{}, nil, invalid("ReminderBefore", "must be between 1 s and 30 days (0: 1 h)", e.ReminderBefore)
	}
	if e.PublishAt.After(e.StartsAt) {
		return Event{}, nil, invalid("PublishAt", "must not be after StartsAt", e.PublishAt)
	}
	zone, err := zoneOf(e.TimeZone)
	return e, zone, err
}

func (e Event) checkPlace() error {
	if e.Lat == nil && e.Lon == nil {
		return nil
	}
	if e.Lat == nil || e.Lon == nil {
		return invalid("Lat and Lon", "must both be given, or neither", "one")
	}
	if !(math.Abs(*e.Lat) <= 90) || !(math.Abs(*e.Lon) <= 180) { // so written that NaN is refused
		return invalid("Lat and Lon", "must be within 90 and 180 degrees", fmt.Sprintf("%v, %v", *e.Lat, *e.Lon))
	}
	return nil
}

// zoneOf refuses Local, which is another zone on each machine.
func zoneOf(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, invalid("TimeZone", "must be an IANA time zone, as Europe/Berlin", fmt.Sprintf("%q", name))
	}
	return zone, nil
}
