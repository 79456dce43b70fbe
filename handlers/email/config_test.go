package email_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers/email"
	"github.com/tasktable/tasktable/store"
)

func TestAConfigIsChecked(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*email.Config)
		want   string // "": it is good
	}{
		"the least": {func(*email.Config) {}, ""},
		"all": {func(c *email.Config) {
			c.Port, c.TLS, c.Auth, c.Timeout = 2525, email.TLSImplicit, email.AuthSCRAMSHA1, time.Minute
		}, ""},
		"an IPv6 host":             {func(c *email.Config) { c.Host = "::1" }, ""},
		"no host":                  {func(c *email.Config) { c.Host = "" }, "Host is required"},
		"a host with a port":       {func(c *email.Config) { c.Host = "smtp.example.org:25" }, "Host must be"},
		"a host with a line break": {func(c *email.Config) { c.Host = "smtp.example.org\r\n" }, "Host must be"},
		"a path":                   {func(c *email.Config) { c.Host = "unix:///tmp/smtp" }, "Host must be"},
		"a port beyond": {
			func(c *email.Config) { c.Port = 65536 }, "Port must be between 1 and 65535, got 65536",
		},
		"a negative port": {func(c *email.Config) { c.Port = -1 }, "Port must be"},
		"an unknown mode": {
			func(c *email.Config) { c.TLS = "ssl" }, `TLS must be starttls, implicit or none, got "ssl"`,
		},
		"a user without a password": {
			func(c *email.Config) { c.Username = "events" }, "Username and Password must be given together",
		},
		"a password without a user": {
			func(c *email.Config) { c.Password = "secret" }, "Username and Password must be given together",
		},
		"an unknown mechanism":  {func(c *email.Config) { c.Auth = "XOAUTH2" }, "Auth must be empty, PLAIN"},
		"no sender":             {func(c *email.Config) { c.From = "" }, "From is required"},
		"a sender that is none": {func(c *email.Config) { c.From = "events" }, "From must be one address"},
		"a sender with a line break": {
			func(c *email.Config) { c.From = "events@example.org\r\nBcc: all@example.org" }, "From must be one address",
		},
		"a sender beyond ASCII": {
			func(c *email.Config) { c.From = "events@exämple.org" }, "From must be an ASCII address",
		},
		"a greeting with a command": {func(c *email.Config) { c.Hello = "me\r\nQUIT" }, "Hello must be a host name"},
		"a short timeout": {
			func(c *email.Config) { c.Timeout = time.Millisecond }, "Timeout must be between 100ms and 10m0s, got 1ms",
		},
		"a long timeout":     {func(c *email.Config) { c.Timeout = time.Hour }, "Timeout must be"},
		"a negative timeout": {func(c *email.Config) { c.Timeout = -1 }, "Timeout must be"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := email.Config{Host: "smtp.example.org", From: "events@example.org"}
			test.change(&config)
			_, err := email.New(config)
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (!errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestAllThatIsWrongIsTold(t *testing.T) {
	t.Parallel()
	_, err := email.Variant(email.Config{Timeout: -1})
	for _, field := range []string{"Host", "From", "Timeout"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("no %s in %v", field, err)
		}
	}
}
