package email

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/mail"
	"strings"
	"unicode"
	"unicode/utf8"

	gomail "github.com/wneessen/go-mail"

	"github.com/tasktable/tasktable/handlers/email/contract"
)

// compose makes the message. It refuses only payloads that no later attempt would mend. Its errors give the rule but
// not the value, because they end up in logs. Those who may read the value find it in the task's payload.
func compose(from *mail.Address, payload contract.SendEmail, key string) (*gomail.Msg, error) {
	to, err := parseAddress(payload.Email)
	if err != nil {
		return nil, fmt.Errorf("payload field email %w", err)
	}
	if hasControl(payload.Subject) {
		return nil, errors.New("payload field subject must be a line without control characters")
	}
	if payload.Body == "" && payload.HTML == "" {
		return nil, errors.New("payload must have a body or html")
	}
	message := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	message.FromMailAddress(from)
	message.ToMailAddress(to)
	message.Subject(payload.Subject)
	message.SetDate()
	message.SetMessageIDWithValue(messageID(key, from))
	switch {
	case payload.HTML == "":
		message.SetBodyString(gomail.TypeTextPlain, payload.Body)
	case payload.Body == "":
		message.SetBodyString(gomail.TypeTextHTML, payload.HTML)
	default:
		message.SetBodyString(gomail.TypeTextPlain, payload.Body)
		message.AddAlternativeString(gomail.TypeTextHTML, payload.HTML)
	}
	return message, nil
}

// messageID is the same for each attempt of a task's revision, on every node. So if the server accepted a mail and
// its answer got lost, the repetition can be told from a second mail. The key is hashed, because a task's id may hold
// any character and is private.
func messageID(key string, from *mail.Address) string {
	hash := sha256.Sum256([]byte(key))
	_, domain, _ := strings.Cut(from.Address[strings.LastIndex(from.Address, "@"):], "@")
	return hex.EncodeToString(hash[:16]) + "@" + domain
}

// parseAddress refuses control characters before net/mail sees them, because net/mail takes some of them for white
// space.
func parseAddress(text string) (*mail.Address, error) {
	rule := errors.New("must be one address, as member-7@example.org")
	if hasControl(text) {
		return nil, rule
	}
	address, err := mail.ParseAddress(text)
	if err != nil || hasControl(address.Name) || hasControl(address.Address) {
		return nil, rule
	}
	return address, nil
}

func hasControl(text string) bool { return strings.ContainsFunc(text, unicode.IsControl) }

func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf })
}
