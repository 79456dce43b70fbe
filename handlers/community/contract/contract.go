// Package contract holds the payloads of the community's tasks, one struct for each type of task. A service needs
// only this package to schedule them. It imports no handler and no engine.
//
// A payload about an entity that users can edit is Keyed by that entity, so that another Schedule after an edit moves
// the same task. A message that is only sent has no key, so each Schedule makes a task of its own.
//
// A new variant needs a struct here, a line in All, and a handler. The tests of this package and of its parent fail
// as long as one of the three is missing.
package contract

import (
	email "github.com/tasktable/tasktable/handlers/email/contract"
	"github.com/tasktable/tasktable/store"
)

// All returns one value of each variant.
func All() []store.Payload {
	return []store.Payload{
		PublishEvent{},
		PublishScheduledPost{},
		SendEventReminder{},
		SendDirectMessage{},
		WelcomeMember{},
		SendEmail{},
		LogActivity{},
		StatusUpdate{},
		GeoSummaryRefresh{},
		TokenCleanup{},
		AccountSuspension{},
		Purge{},
		DeactivatedAccountPurge{},
		MomentCleanup{},
		MomentPurge{},
		MessageExpiry{},
	}
}

// PublishEvent shows a draft event to the community. Its key is the event, so it can be moved.
type PublishEvent struct {
	EventID string `json:"event_id"`
}

// TaskType is PUBLISH_EVENT.
func (PublishEvent) TaskType() string { return "PUBLISH_EVENT" }

// TaskKey is the event's id.
func (p PublishEvent) TaskKey() string { return p.EventID }

// PublishScheduledPost shows a draft post to the community. Its key is the post, so it can be moved.
type PublishScheduledPost struct {
	ScheduledPostID string `json:"scheduled_post_id"`
}

// TaskType is PUBLISH_SCHEDULED_POST.
func (PublishScheduledPost) TaskType() string { return "PUBLISH_SCHEDULED_POST" }

// TaskKey is the post's id.
func (p PublishScheduledPost) TaskKey() string { return p.ScheduledPostID }

// SendEventReminder tells each member of the community that an event is about to start. Its key is the event, so it
// can be moved.
type SendEventReminder struct {
	EventID string `json:"event_id"`
}

// TaskType is SEND_EVENT_REMINDER.
func (SendEventReminder) TaskType() string { return "SEND_EVENT_REMINDER" }

// TaskKey is the event's id.
func (p SendEventReminder) TaskKey() string { return p.EventID }

// SendDirectMessage puts a text into a member's inbox. It has no key.
type SendDirectMessage struct {
	From string `json:"from"` // the member who sends it
	To   string `json:"to"`   // the member who gets it
	Text string `json:"text"`
}

// TaskType is SEND_DIRECT_MESSAGE.
func (SendDirectMessage) TaskType() string { return "SEND_DIRECT_MESSAGE" }

// WelcomeMember is the workflow that begins when a member joins: an e-mail at once, a direct message after a day. Its
// key is the membership, so that a member who leaves and joins again is welcomed again.
type WelcomeMember struct {
	MembershipID string `json:"membership_id"`
}

// TaskType is WELCOME_MEMBER.
func (WelcomeMember) TaskType() string { return "WELCOME_MEMBER" }

// TaskKey is the membership's id.
func (p WelcomeMember) TaskKey() string { return p.MembershipID }

// SendEmail is the ready-made variant of package email. It has no key.
type SendEmail = email.SendEmail

// LogActivity writes an entry of the log of activities. It has no key, because each activity is an entry of its own.
type LogActivity struct {
	MemberID     string `json:"user_id"`
	ActivityType string `json:"activity_type"` // such as "login"
}

// TaskType is activity:log, a name as in asynq.
func (LogActivity) TaskType() string { return "activity:log" }
