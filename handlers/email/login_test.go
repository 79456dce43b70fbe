package email_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/handlers/email"
)

const canary = "canary-Pa55-ÿ"

func TestLogin(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		behaviour script
		mechanism email.AuthMechanism
		want      string
	}{
		"the only one, PLAIN":       {script{startTLS: true, auth: "PLAIN"}, email.AuthAuto, "PLAIN"},
		"the only one, LOGIN":       {script{implicit: true, auth: "LOGIN"}, email.AuthAuto, "LOGIN"},
		"the only one, CRAM-MD5":    {script{auth: "CRAM-MD5"}, email.AuthAuto, "CRAM-MD5"},
		"PLAIN before CRAM in TLS":  {script{implicit: true, auth: "LOGIN CRAM-MD5 PLAIN"}, email.AuthAuto, "PLAIN"},
		"CRAM before PLAIN without": {script{auth: "LOGIN CRAM-MD5 PLAIN"}, email.AuthAuto, "CRAM-MD5"},
		"SCRAM-SHA-256 before all": {
			script{startTLS: true, auth: "PLAIN SCRAM-SHA-1 SCRAM-SHA-256"}, email.AuthAuto, "SCRAM-SHA-256",
		},
		"SCRAM-SHA-1 before PLAIN": {script{startTLS: true, auth: "PLAIN SCRAM-SHA-1"}, email.AuthAuto, "SCRAM-SHA-1"},
		"SCRAM without encryption": {script{auth: "PLAIN CRAM-MD5 SCRAM-SHA-256"}, email.AuthAuto, "SCRAM-SHA-256"},
		"a chosen one":             {script{startTLS: true, auth: "PLAIN LOGIN"}, email.AuthLogin, "LOGIN"},
		"small letters":            {script{startTLS: true, auth: "x-own plain"}, email.AuthAuto, "PLAIN"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.behaviour.user, test.behaviour.password = "events", canary
			s := serve(t, test.behaviour)
			config := s.config()
			config.Auth = test.mechanism
			if err := send(context.Background(), t, config, hello(), 1); err != nil {
				t.Fatal(err)
			}
			if only(t, s).user != "events" {
				t.Error("sent without a login")
			}
			_, commands, _ := s.seen()
			asked := slices.ContainsFunc(commands, func(line string) bool {
				return line == "AUTH "+test.want || strings.HasPrefix(line, "AUTH "+test.want+" ")
			})
			if !asked {
				t.Errorf("the server was told %q", commands)
			}
		})
	}
}

// A wrong password is mended by whoever runs the service, not by giving up the mails.
func TestARefusedLoginIsNotTheMailsFault(t *testing.T) {
	t.Parallel()
	s := serve(t, script{startTLS: true, auth: "PLAIN", user: "events", password: "right"})
	config := s.config()
	config.Password = "wrong"
	err := send(context.Background(), t, config, hello(), 1)
	if err == nil || permanent(err) || !strings.Contains(
		err.Error(), `log in as "events" with PLAIN: the server answered 535 5.7.8`,
	) {
		t.Errorf("got %v", err)
	}
}

func TestAServerWithoutASuitableLogin(t *testing.T) {
	t.Parallel()
	for _, offered := range []string{"", "XOAUTH2 NTLM"} {
		s := serve(t, script{startTLS: true, auth: offered, user: "events", password: canary})
		err := send(context.Background(), t, s.config(), hello(), 1)
		if err == nil || permanent(err) {
			t.Errorf("got %v", err)
		}
	}
}

func TestThePasswordIsInNoError(t *testing.T) {
	t.Parallel()
	echo := func(code int) map[string]string {
		return map[string]string{"AUTH": fmt.Sprintf("%d 5.7.8 you said %%s", code)}
	}
	for name, behaviour := range map[string]script{
		"the server quotes the login": {startTLS: true, auth: "PLAIN", replies: echo(535)},
		"with a temporary error":      {startTLS: true, auth: "PLAIN", replies: echo(454)},
		"as a challenge":              {startTLS: true, auth: "PLAIN", replies: echo(334)},
		"in an answer that is none": {
			startTLS: true, auth: "PLAIN", replies: map[string]string{"AUTH": "you said %s"},
		},
		"the connection is lost at the login": {startTLS: true, auth: "PLAIN", dropAt: "AUTH"},
		"the connection is lost after it":     {startTLS: true, auth: "PLAIN", dropAt: "MAIL"},
		"a recipient is refused": {
			startTLS: true, auth: "LOGIN", replies: map[string]string{"RCPT": "550 no"},
		},
		"there is no encryption":                   {auth: "PLAIN"},
		"the server offers no login that is known": {startTLS: true, auth: "NTLM"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			behaviour.user, behaviour.password = "events", canary
			s := serve(t, behaviour)
			config := s.config()
			config.TLS = email.TLSStartTLS
			err := send(context.Background(), t, config, hello(), 1)
			if err == nil {
				t.Fatal("sent")
			}
			mustNotShow(t, err.Error())
			for cause := err; cause != nil; cause = errors.Unwrap(cause) {
				mustNotShow(t, fmt.Sprintf("%v %+v %#v", cause, cause, cause))
			}
		})
	}
}

func TestAConfigPrintsWithoutItsPassword(t *testing.T) {
	t.Parallel()
	config := email.Config{Host: "smtp.example.org", Username: "events", Password: canary, From: "events@example.org"}
	var logged strings.Builder
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("start", "config", config)
	mustNotShow(t, fmt.Sprintf("%v %+v %#v %s %v", config, config, config, config, &config)+logged.String())
	if !strings.Contains(logged.String(), "smtp.example.org") {
		t.Errorf("logged %s", logged.String())
	}
	config.Host, config.Port, config.TLS, config.Username = "", -1, "half", ""
	_, err := email.New(config)
	mustNotShow(t, err.Error())
}

func mustNotShow(t *testing.T, text string) {
	t.Helper()
	for _, secret := range []string{
		canary, base64.StdEncoding.EncodeToString([]byte(canary)),
		base64.StdEncoding.EncodeToString([]byte("\x00events\x00" + canary)),
	} {
		if strings.Contains(text, secret) {
			t.Errorf("the password is in %q", text)
		}
	}
}
