package email_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers/email"
)

func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		command, reply string
		permanent      bool
	}{
		"no such recipient":        {"RCPT", "550 5.1.1 no such user", true},
		"sender refused":           {"MAIL", "553 5.1.8 sender unknown", true},
		"content refused":          {".", "554 5.7.1 looks like spam", true},
		"content refused at once":  {"DATA", "552 5.3.4 too big", true},
		"greylisted":               {"RCPT", "450 4.2.0 try again later", false},
		"server is busy":           {"MAIL", "421 4.3.2 shutting down", false},
		"disk is full":             {".", "452 4.3.1 no space", false},
		"login is needed":          {"MAIL", "530 5.7.0 authentication required", false},
		"greeting is not accepted": {"EHLO", "550 5.7.1 no", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			replies := map[string]string{test.command: test.reply}
			if test.command == "EHLO" {
				replies["HELO"] = test.reply
			}
			s := serve(t, script{replies: replies})
			err := send(context.Background(), t, s.config(), hello(), 1)
			if err == nil || permanent(err) != test.permanent {
				t.Errorf("permanent %v, want %v: %v", permanent(err), test.permanent, err)
			}
			code, words, _ := strings.Cut(test.reply, " ")
			if err != nil && !strings.Contains(err.Error(), code+" "+strconv.Quote(words)) {
				t.Errorf("the server's answer is not in %q", err)
			}
			if _, _, mails := s.seen(); len(mails) != 0 {
				t.Errorf("%d mails", len(mails))
			}
		})
	}
}

// A server that quotes the recipient does not put it into the task's history.
func TestARefusalDoesNotNameTheRecipient(t *testing.T) {
	t.Parallel()
	for reply, want := range map[string]string{
		"550 no such mailbox <member-7@example.org>": "550 \"no such mailbox <[recipient]>\"",
		"550 MEMBER-7@Example.org is unknown":        "550 \"[recipient] is unknown\"",
		"450 member-7: greylisted, member-7":         "450 \"[recipient]: greylisted, [recipient]\"",
		"550 to <member-77@example.org>":             "550 \"to <member-77@example.org>\"",
		"550 5.1.1 no such user":                     "550 \"5.1.1 no such user\"",
	} {
		for _, command := range []string{"RCPT", "DATA", "."} {
			s := serve(t, script{replies: map[string]string{command: reply}})
			err := send(context.Background(), t, s.config(), hello(), 1)
			if err == nil || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%s at %s: got %v, want %s", reply, command, err, want)
			}
		}
	}
}

func TestALostAnswerIsAskedForAgain(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"EHLO", "MAIL", "RCPT", "DATA", "."} {
		s := serve(t, script{dropAt: command})
		if err := send(context.Background(), t, s.config(), hello(), 1); err == nil || permanent(err) {
			t.Errorf("connection lost at %s: %v", command, err)
		}
	}
}

func TestAnAcceptedMailIsSentWhateverFollows(t *testing.T) {
	t.Parallel()
	for name, behaviour := range map[string]script{
		"connection lost": {dropAt: "QUIT"},
		"refused goodbye": {replies: map[string]string{"QUIT": "500 what?"}},
	} {
		s := serve(t, behaviour)
		if err := send(context.Background(), t, s.config(), hello(), 1); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		only(t, s)
	}
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	_ = listener.Close()
	err = send(
		context.Background(), t, email.Config{Host: "127.0.0.1", Port: port, From: "events@example.org"}, hello(), 1,
	)
	if err == nil || permanent(err) {
		t.Errorf("got %v", err)
	}
}

func TestTheContextEndsADelivery(t *testing.T) {
	t.Parallel()
	cause := errors.New("the task was cancelled")
	for _, command := range []string{"EHLO", "MAIL", "DATA", "."} {
		s := serve(t, script{stallAt: command})
		ctx, cancel := context.WithCancelCause(context.Background())
		result := make(chan error, 1)
		go func() { result <- send(ctx, t, s.config(), hello(), 1) }()
		<-s.stalled
		cancel(cause)
		select {
		case err := <-result:
			if !errors.Is(err, cause) || permanent(err) {
				t.Errorf("at %s: %v", command, err)
			}
		case <-time.After(10 * time.Second): // far below the configured timeout, which would end it too
			t.Fatalf("at %s: still waiting", command)
		}
	}
}

func TestASilentServerTimesOut(t *testing.T) {
	t.Parallel()
	s := serve(t, script{stallAt: "MAIL"})
	config := s.config()
	config.Timeout = 100 * time.Millisecond
	err := send(context.Background(), t, config, hello(), 1)
	var timeout interface{ Timeout() bool }
	if !errors.As(err, &timeout) || !timeout.Timeout() || permanent(err) {
		t.Errorf("got %v", err)
	}
}

func TestEncryption(t *testing.T) {
	t.Parallel()
	for name, behaviour := range map[string]script{"STARTTLS": {startTLS: true}, "implicit": {implicit: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, behaviour)
			if err := send(context.Background(), t, s.config(), hello(), 1); err != nil {
				t.Fatal(err)
			}
			if !only(t, s).encrypted {
				t.Error("the mail went in the clear")
			}
		})
		t.Run(name+" with an unknown authority", func(t *testing.T) {
			t.Parallel()
			s := serve(t, behaviour)
			config := s.config()
			config.TLSConfig = nil
			err := send(context.Background(), t, config, hello(), 1)
			var unknown x509.UnknownAuthorityError
			if !errors.As(err, &unknown) || permanent(err) {
				t.Errorf("got %v", err)
			}
		})
		t.Run(name+" with a certificate of another server", func(t *testing.T) {
			t.Parallel()
			s := serve(t, behaviour)
			config := s.config()
			config.TLSConfig.ServerName = "other.example.org"
			err := send(context.Background(), t, config, hello(), 1)
			var other *tls.CertificateVerificationError
			if !errors.As(err, &other) || permanent(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestEncryptionIsRequiredByDefault(t *testing.T) {
	t.Parallel()
	s := serve(t, script{auth: "PLAIN", user: "events", password: "secret"})
	config := s.config()
	config.TLS = ""
	err := send(context.Background(), t, config, hello(), 1)
	if err == nil || permanent(err) {
		t.Errorf("got %v", err)
	}
	_, commands, _ := s.seen()
	if slices.ContainsFunc(commands, func(line string) bool {
		return !strings.HasPrefix(line, "EHLO") && line != "QUIT"
	}) {
		t.Errorf("the server was told %q", commands)
	}
}

func TestAddressesBeyondASCII(t *testing.T) {
	t.Parallel()
	payload := hello()
	payload.Email = "mitglied-ä@example.org"
	if err := send(context.Background(), t, serve(t, script{}).config(), payload, 1); !permanent(err) {
		t.Errorf("without SMTPUTF8: %v", err)
	}
	s := serve(t, script{utf8: true})
	if err := send(context.Background(), t, s.config(), payload, 1); err != nil {
		t.Fatal(err)
	}
	if got := only(t, s).to; got != "TO:<mitglied-ä@example.org>" {
		t.Errorf("recipient %q", got)
	}
}
