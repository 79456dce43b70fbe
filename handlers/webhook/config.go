package webhook

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tasktable/tasktable/store"
)

// DefaultTimeout is the default of Config.Timeout.
const DefaultTimeout = 30 * time.Second

const (
	minTimeout = 100 * time.Millisecond
	maxTimeout = 10 * time.Minute

	// connectTimeout bounds a connection's making, and its TLS handshake again. The client goes on connecting after a
	// request has ended, because a later request may use the connection.
	connectTimeout = 10 * time.Second
)

// Config says which secrets and which addresses requests may use. The zero value works: it signs nothing, and it sends
// to public addresses only. A Config that is printed or logged does not show its secrets.
type Config struct {
	// Secrets are the secrets that a payload's sign_with can name. A name has 1 to 64 letters, digits, - and _. A
	// secret is "whsec_" and the Base64 of 24 to 64 bytes, as Standard Webhooks has it. A name may have several
	// secrets. Then a request has a signature by each of them, so that a secret can be replaced without a break.
	Secrets map[string][]string `json:"-"`
	// Allow are hosts and ranges of addresses that requests may go to although they are not public. An entry is a host
	// (example.org), all hosts below it (*.example.org), an address, or a range (10.1.0.0/16). A host is allowed
	// whatever it resolves to.
	Allow []string
	// Deny are hosts and ranges that requests must not go to. An entry has the form of Allow's. Deny wins over Allow.
	Deny []string
	// Timeout is the most that a request may take, whatever its payload says. A payload without a timeout has 30 s, or
	// Timeout if that is less. It is 100 ms to 10 minutes. Default (0): 30 s.
	Timeout time.Duration
	// Circuit says when tasks wait for a host that fails.
	Circuit Circuit
	// KeepErrorBody keeps the beginning of the body of an answer that fails an attempt, in the attempt's error. It is
	// up to 1 KiB, as one line, without the values of the request's headers and query. Errors go to logs and notices.
	// Default (false): of those tasks only whose payload says so.
	KeepErrorBody bool
	// Logger gets a line when a circuit opens or closes, and when an address is refused. Default (nil): no log.
	Logger *slog.Logger `json:"-"`
	// Metrics gets the gauge tasktable_webhook_open_circuits. A registry takes it from one Sender. Default (nil): none.
	Metrics prometheus.Registerer `json:"-"`
	// TLSConfig sets certificate authorities and other TLS options. New clones it. If it has no MinVersion, TLS 1.2 is
	// the minimum. Default (nil): the machine's certificate authorities.
	TLSConfig *tls.Config
	// Resolver resolves the names of hosts. Default (nil): net.DefaultResolver.
	Resolver *net.Resolver
}

func (c Config) withDefaults() Config {
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.TLSConfig = cmp.Or(c.TLSConfig, &tls.Config{MinVersion: tls.VersionTLS12}).Clone()
	c.TLSConfig.MinVersion = cmp.Or(c.TLSConfig.MinVersion, tls.VersionTLS12)
	return c
}

// New checks the configuration and makes a Sender. It opens no connection. The error wraps store.ErrInvalid and names
// each bad field.
func New(config Config) (*Sender, error) {
	config = config.withDefaults()
	s := &Sender{timeout: config.Timeout, keepBody: config.KeepErrorBody, log: config.Logger,
		circuits: newCircuits(config.Circuit, config.Logger)}
	guard := &guard{dialer: net.Dialer{Resolver: config.Resolver, Timeout: connectTimeout}}
	var errs [5]error
	s.keys, errs[0] = parseSecrets(config.Secrets)
	guard.allow, errs[1] = parseTargets("Allow", config.Allow)
	guard.deny, errs[2] = parseTargets("Deny", config.Deny)
	errs[3] = config.Circuit.Check()
	if config.Timeout < minTimeout || config.Timeout > maxTimeout {
		errs[4] = fmt.Errorf("Timeout must be between %s and %s, got %s", minTimeout, maxTimeout, config.Timeout)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("webhook.Config: %w: %w", store.ErrInvalid, err)
	}
	s.transport = newTransport(guard, config.TLSConfig)
	if err := s.circuits.register(config.Metrics); err != nil {
		return nil, err
	}
	return s, nil
}

// visible returns the fields of a Config that may be printed. Of the secrets these are the names.
func (c Config) visible() []slog.Attr {
	return []slog.Attr{
		slog.Any("secrets", slices.Sorted(maps.Keys(c.Secrets))),
		slog.Any("allow", c.Allow),
		slog.Any("deny", c.Deny),
		slog.Duration("timeout", c.Timeout),
		slog.Any("circuit", c.Circuit),
		slog.Bool("keep_error_body", c.KeepErrorBody),
	}
}

// String returns the Config without its secrets. The verbs %v and %+v use it.
func (c Config) String() string { return fmt.Sprint(c.visible()) }

// GoString returns the same for %#v.
func (c Config) GoString() string { return "webhook.Config" + c.String() }

// LogValue returns the same for slog.
func (c Config) LogValue() slog.Value { return slog.GroupValue(c.visible()...) }
