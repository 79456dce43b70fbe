// Package email is the variant SEND_EMAIL: it delivers e-mails by SMTP.
//
//	mail, err := email.Variant(email.Config{
//		Host:     "smtp.example.org",
//		Username: "events",
//		Password: os.Getenv("SMTP_PASSWORD"),
//		From:     "Events <events@example.org>",
//	})
//	registry, err := handlers.NewRegistry(mail)
//
// The payload is contract.SendEmail. It has a package of its own for services that only schedule.
//
// # Which errors are retried
//
// Two kinds of errors are permanent. The first is a payload that no server should see: a bad address, a subject with
// a line break (which could inject headers), or no content. The second is a server's 5xx answer to the sender, the
// recipient or the content, because the server would refuse this mail again. Every other error is retried: no
// connection, no encryption, a 4xx answer, a refused login. A refused login is a problem of the account and not of
// the mail. Once the account is mended, the mails go out. A mail that has used up its attempts by then needs a retry
// by an operator.
//
// # At least once
//
// A mail can go out twice, because SMTP cannot take back a mail. This happens if the server accepted the mail, and
// then its answer got lost or this process died. Both mails have the same Message-ID, made from the task's
// IdempotencyKey. So mail programs and most servers drop the second mail, or show both as one.
//
// # Secrets
//
// The password is never part of an error or of a printed Config. Without encryption it is sent to localhost only.
// Errors about the login leave out the server's text, because some servers quote the text that they received. In the
// server's other answers, "[recipient]" replaces the recipient's address and the part before the @, if that has at
// least 3 bytes. A subject or a body that a server quotes is not replaced.
package email
