package cmd

import (
	"errors"
	"net/mail"
	"strings"
	"time"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/email"
)

// mailSettings say by which server SEND_EMAIL delivers.
type mailSettings struct{ config email.Config }

func (s *mailSettings) options() []options.Option {
	c := &s.config
	return []options.Option{
		{Flag: "smtp-host", Variable: "TASKTABLE_SMTP_HOST", Kind: "host", Set: hostName(&c.Host),
			Usage: "the mail server; with it this node runs SEND_EMAIL"},
		{Flag: "smtp-port", Variable: "TASKTABLE_SMTP_PORT", Kind: "number", Set: options.Int(&c.Port, 1, 65535),
			Usage: "its port (default 587 for starttls, 465 for implicit, 25 for none)"},
		{Flag: "smtp-tls", Variable: "TASKTABLE_SMTP_TLS", Kind: "mode", Default: string(email.TLSStartTLS),
			Usage: "starttls, implicit or none",
			Set:   options.OneOf(&c.TLS, email.TLSStartTLS, email.TLSImplicit, email.TLSNone)},
		{Flag: "smtp-username", Variable: "TASKTABLE_SMTP_USERNAME", Kind: "name", Set: options.Text(&c.Username, 512),
			Usage: "the name to log in by (default no login)"},
		{Flag: "smtp-password", Variable: "TASKTABLE_SMTP_PASSWORD", Kind: "password", Secret: true,
			Set:   options.Text(&c.Password, 4096),
			Usage: "the password; better in the variable, because flags show in the list of processes"},
		{Flag: "smtp-auth", Variable: "TASKTABLE_SMTP_AUTH", Kind: "mechanism",
			Usage: "PLAIN, LOGIN, CRAM-MD5, SCRAM-SHA-1 or SCRAM-SHA-256 (default the best that the server offers)",
			Set: options.OneOf(&c.Auth, email.AuthPlain, email.AuthLogin, email.AuthCRAMMD5, email.AuthSCRAMSHA1,
				email.AuthSCRAMSHA256)},
		{Flag: "smtp-from", Variable: "TASKTABLE_SMTP_FROM", Kind: "address", Set: mailAddress(&c.From),
			Usage: "the sender of all mails, such as \"Events <events@example.org>\""},
		{Flag: "smtp-hello", Variable: "TASKTABLE_SMTP_HELLO", Kind: "host", Set: hostName(&c.Hello),
			Usage: "the name to greet the server with (default this machine's)"},
		{Flag: "smtp-timeout", Variable: "TASKTABLE_SMTP_TIMEOUT", Kind: "duration",
			Default: email.DefaultTimeout.String(),
			Usage:   "the most a delivery may take", Set: options.Duration(&c.Timeout, 100*time.Millisecond,
				10*time.Minute)},
	}
}

func hostName(into *string) func(string) error {
	return func(given string) error {
		if strings.ContainsAny(given, "/ @[]") || strings.Count(given, ":") == 1 { // two are an IPv6 address
			return errors.New("must be a host name or an IP address, without a port")
		}
		return options.Text(into, 253)(given)
	}
}

func mailAddress(into *string) func(string) error {
	isAddress := func(given string) error {
		_, err := mail.ParseAddress(given)
		return err
	}
	return options.Checked(into, isAddress,
		`must be an e-mail address, such as events@example.org or "Events <events@example.org>"`)
}

// server is the configuration of the mail server, or nil without a host.
func (s *mailSettings) server() *email.Config {
	if s.config.Host == "" {
		return nil
	}
	return &s.config
}

// variant is the handler of SEND_EMAIL, or nil without a host. A sender without a server is an error, because it is
// more likely a mistake in the server's variable than a wish for no mail.
func (s *mailSettings) variant() (handlers.Part, error) {
	const host, from = "--smtp-host (TASKTABLE_SMTP_HOST)", "--smtp-from (TASKTABLE_SMTP_FROM)"
	config := s.config
	switch {
	case config.Host == "" && (config.From != "" || config.Username != "" || config.Password != ""):
		return nil, options.Usage("%s is missing, though other SMTP options are given", host)
	case config.Host == "":
		return nil, nil
	case config.From == "":
		return nil, options.Usage("%s is missing: %s needs it", from, host)
	case (config.Username == "") != (config.Password == ""):
		return nil, options.Usage("--smtp-username (TASKTABLE_SMTP_USERNAME) and --smtp-password " +
			"(TASKTABLE_SMTP_PASSWORD) must be given together")
	}
	variant, err := email.Variant(config)
	if err != nil {
		return nil, options.Usage("the options with smtp in their names: %w", err)
	}
	return variant, nil
}
