package cmd

import (
	"errors"
	"net/mail"
	"strings"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/email"
)

// mailSettings say by which server SEND_EMAIL delivers.
type mailSettings struct {
	config    email.Config
	tls, auth string
}

func (s *mailSettings) options() []option {
	c := &s.config
	return []option{
		{flag: "smtp-host", variable: "TASKTABLE_SMTP_HOST", value: "host", set: hostName(&c.Host),
			usage: "the mail server; with it this node runs SEND_EMAIL"},
		{flag: "smtp-port", variable: "TASKTABLE_SMTP_PORT", value: "number", set: whole(&c.Port, 1, 65535),
			usage: "its port (default 587 for starttls, 465 for implicit, 25 for none)"},
		{flag: "smtp-tls", variable: "TASKTABLE_SMTP_TLS", value: "mode", fallback: string(email.TLSStartTLS),
			usage: "starttls, implicit or none", set: choice(&s.tls, string(email.TLSStartTLS), string(email.TLSImplicit), string(email.TLSNone))},
		{flag: "smtp-username", variable: "TASKTABLE_SMTP_USERNAME", value: "name", set: text(&c.Username, 512),
			usage: "the name to log in by (default no login)"},
		{flag: "smtp-password", variable: "TASKTABLE_SMTP_PASSWORD", value: "password", secret: true, set: text(&c.Password, 4096),
			usage: "its password; better in the variable, since flags show in the list of processes"},
		{flag: "smtp-auth", variable: "TASKTABLE_SMTP_AUTH", value: "mechanism",
			usage: "PLAIN, LOGIN, CRAM-MD5, SCRAM-SHA-1 or SCRAM-SHA-256 (default the best that the server offers)",
			set: choice(&s.auth, string(email.AuthPlain), string(email.AuthLogin), string(email.AuthCRAMMD5),
				string(email.AuthSCRAMSHA1), string(email.AuthSCRAMSHA256))},
		{flag: "smtp-from", variable: "TASKTABLE_SMTP_FROM", value: "address", set: mailAddress(&c.From),
			usage: "the sender of all mails, such as \"Events <events@example.org>\""},
		{flag: "smtp-hello", variable: "TASKTABLE_SMTP_HELLO", value: "host", set: hostName(&c.Hello),
			usage: "the name to greet the server with (default this machine's)"},
		{flag: "smtp-timeout", variable: "TASKTABLE_SMTP_TIMEOUT", value: "duration", fallback: email.DefaultTimeout.String(),
			usage: "the most a delivery may take", set: duration(&c.Timeout, 100*time.Millisecond, 10*time.Minute)},
	}
}

func hostName(into *string) func(string) error {
	return func(given string) error {
		if strings.ContainsAny(given, "/ @[]") || strings.Count(given, ":") == 1 { // two are an IPv6 address
			return errors.New("must be a host name or an IP address, without a port")
		}
		return text(into, 253)(given)
	}
}

func mailAddress(into *string) func(string) error {
	return func(given string) error {
		if _, err := mail.ParseAddress(given); err != nil {
			return errors.New("must be an e-mail address, such as events@example.org or \"Events <events@example.org>\"")
		}
		*into = given
		return nil
	}
}

// variant is SEND_EMAIL, or nil without a host. What belongs together is checked here: a sender without a server is a
// mistake in the server's variable, not a wish for none.
func (s *mailSettings) variant() (handlers.Part, error) {
	const host, from = "--smtp-host (TASKTABLE_SMTP_HOST)", "--smtp-from (TASKTABLE_SMTP_FROM)"
	config := s.config
	config.TLS, config.Auth = email.TLSMode(s.tls), email.AuthMechanism(s.auth)
	switch {
	case config.Host == "" && (config.From != "" || config.Username != "" || config.Password != ""):
		return nil, usage("%s is missing, though other SMTP options are given", host)
	case config.Host == "":
		return nil, nil
	case config.From == "":
		return nil, usage("%s is missing: %s needs it", from, host)
	case (config.Username == "") != (config.Password == ""):
		return nil, usage("--smtp-username (TASKTABLE_SMTP_USERNAME) and --smtp-password (TASKTABLE_SMTP_PASSWORD) must be given together")
	}
	variant, err := email.Variant(config)
	if err != nil {
		return nil, usage("the options with smtp in their names: %w", err)
	}
	return variant, nil
}
