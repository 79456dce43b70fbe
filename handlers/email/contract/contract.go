// Package contract is the payload of package email, for services that schedule e-mails and do not send them: it imports
// nothing, so they do not compile an SMTP client in.
package contract

// SendEmail is one e-mail to one recipient. It has no key: each one scheduled is a task of its own, with a new id, since
// e-mails are triggered from many places and nobody edits them afterwards.
type SendEmail struct {
	// Email is the recipient: one address, as member-7@example.org or "Member 7 <member-7@example.org>".
	Email string `json:"email"`
	// Subject is a line of text in any language, without control characters. It may be empty.
	Subject string `json:"subject"`
	// Body is the plain text. It or HTML must be given.
	Body string `json:"body"`
	// HTML is the same content for mail programs that show HTML; optional.
	HTML string `json:"html,omitempty"`
}

// TaskType is SEND_EMAIL.
func (SendEmail) TaskType() string { return "SEND_EMAIL" }
