package cmd

import (
	"cmp"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/webhook"
)

// webhookSettings say where HTTP_REQUEST may send, and by which secrets it signs. A node runs it without any of them.
type webhookSettings struct{ config webhook.Config }

func (s *webhookSettings) options() []options.Option {
	c := &s.config
	return []options.Option{
		{Flag: "webhook-allow", Variable: "TASKTABLE_WEBHOOK_ALLOW", Kind: "target", Repeatable: true,
			Set: targets(&c.Allow),
			Usage: "a host, all hosts below one (*.example.org), an address or a range that HTTP_REQUEST may call " +
				"although it is not public; may be repeated, or separated by commas"},
		{Flag: "webhook-deny", Variable: "TASKTABLE_WEBHOOK_DENY", Kind: "target", Repeatable: true,
			Set:   targets(&c.Deny),
			Usage: "a host, address or range that HTTP_REQUEST must not call, even if it is public or allowed"},
		{Flag: "webhook-secret", Variable: "TASKTABLE_WEBHOOK_SECRETS", Kind: "name=secret", Repeatable: true,
			Secret: true, Set: secrets(&c.Secrets),
			Usage: "a secret of Standard Webhooks that HTTP_REQUEST signs by if a payload names it; may be repeated, " +
				"or separated by commas or lines. A name with two secrets makes two signatures. Better in the " +
				"variable, because flags show in the list of processes"},
		{Flag: "webhook-timeout", Variable: "TASKTABLE_WEBHOOK_TIMEOUT", Kind: "duration",
			Default: webhook.DefaultTimeout.String(),
			Usage:   "the most an HTTP_REQUEST may take; a payload's timeout can only be shorter. One without has 30s",
			Set:     options.Duration(&c.Timeout, 100*time.Millisecond, 10*time.Minute)},
		{Flag: "webhook-circuit", Variable: "TASKTABLE_WEBHOOK_CIRCUIT", Kind: "calls,open,most",
			Default: "20,30s,15m", Set: circuit(&c.Circuit),
			Usage: "when tasks wait for a host that fails: if more than half of at least so many calls within a " +
				"minute have failed, for that long at first, and for that long at most; or off"},
		{Flag: "webhook-keep-error-body", Variable: "TASKTABLE_WEBHOOK_KEEP_ERROR_BODY",
			Set: options.Bool(&c.KeepErrorBody),
			Usage: "keep the first KiB of the body of an answer that fails an HTTP_REQUEST in the task's error, " +
				"which goes to logs and notices; without it, only of tasks whose payload has keep_error_body"},
	}
}

// circuit reads the calls, the first and the longest open time of a circuit, or off.
func circuit(into *webhook.Circuit) func(string) error {
	return func(given string) error {
		if given == "off" {
			*into = webhook.Circuit{Off: true}
			return nil
		}
		wrong := errors.New("must be off, or a number of calls, the first open time and the longest, such as " +
			"20,30s,15m: 1 to 100000 calls, times from 1s to 24h")
		parts := strings.Split(given, ",")
		if len(parts) != 3 {
			return wrong
		}
		var err [3]error
		found := webhook.Circuit{}
		found.Calls, err[0] = strconv.Atoi(parts[0])
		found.Open, err[1] = time.ParseDuration(parts[1])
		found.MaxOpen, err[2] = time.ParseDuration(parts[2])
		zero := found.Calls == 0 || found.Open == 0 || found.MaxOpen == 0 // would mean the default
		if errors.Join(err[:]...) != nil || zero || found.Check() != nil {
			return wrong
		}
		*into = found
		return nil
	}
}

func targets(into *[]string) func(string) error {
	return options.Each(into, func(item string) (string, error) {
		if _, err := webhook.New(webhook.Config{Allow: []string{item}}); err != nil {
			return "", errors.New("must be a host such as example.org or *.example.org, an address, or a range such " +
				"as 10.1.0.0/16, or several separated by commas")
		}
		return item, nil
	})
}

func secrets(into *map[string][]string) func(string) error {
	return func(given string) error {
		found := map[string][]string{}
		for _, item := range strings.FieldsFunc(given, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }) {
			name, secret, _ := strings.Cut(item, "=")
			found[name] = append(found[name], secret)
		}
		if _, err := webhook.New(webhook.Config{Secrets: found}); err != nil {
			return errors.New("must be name=secret, or several separated by commas or lines: the name of 1 to 64 " +
				"letters, digits, - and _, the secret whsec_ and the Base64 of 24 to 64 bytes")
		}
		*into = found
		return nil
	}
}

// most is the longest that a request takes.
func (s *webhookSettings) most() time.Duration {
	return cmp.Or(s.config.Timeout, webhook.DefaultTimeout)
}

// variant is the handler of HTTP_REQUEST.
func (s *webhookSettings) variant(logger *slog.Logger, m *metrics) (handlers.Part, error) {
	s.config.Logger = logger // that of notices, too
	config := s.config
	if m != nil {
		config.Metrics = m.registry
	}
	variant, err := webhook.Variant(config)
	if err != nil {
		return nil, options.Usage("the options with webhook in their names: %w", err)
	}
	return variant, nil
}
