package community

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/tasktable/tasktable/handlers/community/contract"
	"github.com/tasktable/tasktable/store"
)

// DefaultReminderBefore is the default of Event.ReminderBefore.
const DefaultReminderBefore = time.Hour

const (
	defaultDuration   = time.Hour
	minDuration       = time.Second
	maxDuration       = 31 * 24 * time.Hour // unfinishedSQL repeats this number
	minReminderBefore = time.Second
	maxReminderBefore = 30 * 24 * time.Hour
	maxRepeatDays     = 366
)

// EventStatus says whether an event has taken place.
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
	// ID is chosen by the caller: 1 to 200 characters without control characters. Default ("") in CreateEvent: a new
	// UUID.
	ID string
	// CommunityID is the community that the event belongs to. EditEvent does not change it.
	CommunityID string
	// Title is 1 to 200 characters without control characters.
	Title string
	// StartsAt is required. For a recurring event it is the start of the next occurrence that members have not been
	// reminded of.
	StartsAt time.Time
	// TimeZone is an IANA name, such as Europe/Berlin. A recurring event keeps its local time in this zone. Default
	// (""): UTC.
	TimeZone string
	// Duration is how long the event takes, 1 s to 31 days. Default (0): one hour.
	Duration time.Duration
	// RepeatDays is the number of days after which the event recurs, such as 7 for weekly, at most 366. Default (0):
	// it does not recur.
	RepeatDays int
	// ReminderBefore is how long before the start the members are reminded, 1 s to 30 days. Default (0): one hour.
	ReminderBefore time.Duration
	// PublishAt is when a draft is published. It must not be after StartsAt. Default (zero): at once. It has no
	// effect on a published event.
	PublishAt time.Time
	// Lat and Lon are the place of the event, in degrees. Give both or none. Default (nil): no place.
	Lat, Lon *float64
	// PublishedAt is when the event was published. Nil means that it is a draft. The caller reads it and never sets
	// it.
	PublishedAt *time.Time
	// Status says whether the event has taken place, as of the last STATUS_UPDATE. The caller reads it and never sets
	// it.
	Status EventStatus
}

// ReminderAt is when the reminder is due.
func (e Event) ReminderAt() time.Time { return e.StartsAt.Add(-e.ReminderBefore) }

// eventRow is an Event as it is stored.
type eventRow struct {
	Event
	StartsLocal time.Time // the local time that the calendar shows, stored as if in UTC
}

func entityOfEvent(id string) string { return "event:" + id }

// tasks returns all future tasks of the event. Sync makes the event's tasks exactly these.
func (e Event) tasks() []store.Task {
	reminder := store.Task{
		Payload:  contract.SendEventReminder{EventID: e.ID},
		At:       e.ReminderAt(),
		TenantID: e.CommunityID,
	}
	if e.RepeatDays == 0 {
		// There is no reminder of an event that has started. The reminder of a recurring event must not expire,
		// because it schedules the next one, and so a long outage would end the series for good. Its handler skips
		// the occurrences that have started.
		reminder.Expiration = e.ReminderBefore
	}
	if e.PublishedAt != nil {
		return []store.Task{reminder}
	}
	publish := store.Task{Payload: contract.PublishEvent{EventID: e.ID}, At: e.PublishAt, TenantID: e.CommunityID}
	return []store.Task{publish, reminder}
}

// checked returns the event with its defaults filled in, and its time zone.
func (e Event) checked() (Event, *time.Location, error) {
	e.StartsAt, e.PublishAt = micros(e.StartsAt), micros(e.PublishAt)
	e.ReminderBefore, e.Duration = e.ReminderBefore.Truncate(time.Microsecond), e.Duration.Truncate(time.Microsecond)
	e.TimeZone = cmp.Or(e.TimeZone, "UTC")
	e.ReminderBefore, e.Duration = cmp.Or(e.ReminderBefore, DefaultReminderBefore), cmp.Or(e.Duration, defaultDuration)
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
	if !(math.Abs(*e.Lat) <= 90) || !(math.Abs(*e.Lon) <= 180) { // written with ! so that NaN is refused
		return invalid("Lat and Lon", "must be within 90 and 180 degrees", fmt.Sprintf("%v, %v", *e.Lat, *e.Lon))
	}
	return nil
}

// zoneOf loads a time zone. It refuses Local, because Local depends on the machine.
func zoneOf(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, invalid("TimeZone", "must be an IANA time zone, as Europe/Berlin", fmt.Sprintf("%q", name))
	}
	return zone, nil
}
