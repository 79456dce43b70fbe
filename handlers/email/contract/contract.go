// Package contract is the payload of package email. It is for services that schedule e-mails and do not send them. It
// imports nothing, so that such a service does not compile in an SMTP client.
package contract

// SendEmail is one e-mail to one recipient. It has no key, so each Schedule makes a task of its own with a new id.
// Many places schedule e-mails, and nobody edits an e-mail afterwards.
type SendEmail struct {
	// Email is the recipient's address, such as "member-7@example.org" or "Member 7 <member-7@example.org>". It is
	// required.
	Email string `json:"email"`
	// Subject is a line of text in any language, without control characters. It may be empty.
	Subject string `json:"subject"`
	// Body is the plain text. Body or HTML is required.
	Body string `json:"body"`
	// HTML is the same content for mail programs that show HTML. It is optional if Body is given.
	HTML string `json:"html,omitempty"`
}

// TaskType is SEND_EMAIL.
func (SendEmail) TaskType() string { return "SEND_EMAIL" }
