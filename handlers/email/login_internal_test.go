package email

import (
	"errors"
	"testing"

	"github.com/wneessen/go-mail/smtp"
)

func TestThePasswordIsNotSentInTheClear(t *testing.T) {
	t.Parallel()
	for _, mechanism := range []string{"PLAIN", "LOGIN"} {
		l := &login{config: Config{Username: "events", Password: "secret"}}
		_, sent, err := l.Start(&smtp.ServerInfo{Name: "smtp.example.org", Auth: []string{mechanism}})
		if !errors.Is(err, smtp.ErrUnencrypted) || sent != nil {
			t.Errorf("%s: sent %q, %v", mechanism, sent, err)
		}
	}
}
