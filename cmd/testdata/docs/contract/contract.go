// Package contract is what the documents' examples take for the reader's own.
package contract

type SendEventReminder struct {
	EventID string `json:"event_id"`
}

func (SendEventReminder) TaskType() string  { return "SEND_EVENT_REMINDER" }
func (p SendEventReminder) TaskKey() string { return p.EventID }

type SendDigest struct {
	MemberID string `json:"member_id"`
}

func (SendDigest) TaskType() string  { return "SEND_DIGEST" }
func (p SendDigest) TaskKey() string { return p.MemberID }
