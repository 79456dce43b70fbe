// Package email is the variant SEND_EMAIL: it delivers e-mails by SMTP.
//
//	mail, err := email.Variant(email.Config{
//		Host: "smtp.example.org", Username: "events", Password: os.Getenv("SMTP_PASSWORD"), From: "Events <events@example.org>",
//	})
//	registry, err := handlers.NewRegistry(mail)
//
// The payload is contract.SendEmail, in a package of its own for services that only schedule.
//
// # Which errors are retried
//
// Permanent are a payload that no server should see (a bad address; a subject with a line break, by which headers could be
// injected; no content) and a server's 5xx answer to the sender, the recipient or the content: it would refuse this mail
// again. Everything else is retried: no connection, no encryption, a 4xx answer, a refused login. The login is the account's
// matter and not the mail's; once it is mended the mails go out, those that used up their attempts by a retry.
//
// # At least once
//
// SMTP cannot take back a mail, so a mail can go out twice: when the server accepted it and the answer, or this process, was
// lost. Both have the same Message-ID, made of the task's IdempotencyKey, by which mail programs and most servers drop or show
// together what is the same.
//
// # Secrets
//
// The password is never part of an error or of what a Config prints. Without encryption it is sent to localhost only. The
// server's text is left out of errors about the login, because some servers quote what they were sent. In the server's other
// answers the recipient's address, and its part before the @, are replaced by "[recipient]". A subject or a body that a server
// quotes is not replaced.
package email
