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
	// Timeout bounds a request whose payload has no timeout. It is 100 ms to 10 minutes. Default (0): 30 s.
	Timeout time.Duration
	// TLSConfig sets certificate authorities and other TLS options. New clones it. If it has no MinVersion, TLS 1.2 is
	// the minimum. Default (nil): the machine's certificate authorities.
	TLSConfig *tls.Config
	// Resolver resolves the names of hosts. Default (nil): net.DefaultResolver.
	Resolver *net.Resolver
}

func (c Config) withDefaults() Config {
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	if c.TLSConfig == nil {
		c.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	c.TLSConfig = c.TLSConfig.Clone()
	c.TLSConfig.MinVersion = cmp.Or(c.TLSConfig.MinVersion, tls.VersionTLS12)
	return c
}

// New checks the configuration and makes a Sender. It opens no connection. The error wraps store.ErrInvalid and names
// each bad field.
func New(config Config) (*Sender, error) {
	config = config.withDefaults()
	s := &Sender{timeout: config.Timeout, breakers: newBreakers()}
	guard := &guard{dialer: net.Dialer{Resolver: config.Resolver, Timeout: connectTimeout}}
	var errs [3]error
	s.keys, errs[0] = parseSecrets(config.Secrets)
	guard.allow, errs[1] = parseTargets("Allow", config.Allow)
	guard.deny, errs[2] = parseTargets("Deny", config.Deny)
	err := errors.Join(errs[:]...)
	if config.Timeout < minTimeout || config.Timeout > maxTimeout {
		err = errors.Join(err, fmt.Errorf("Timeout must be between %s and %s, got %s", minTimeout, maxTimeout,
			config.Timeout))
	}
	if err != nil {
		return nil, fmt.Errorf("webhook.Config: %w: %w", store.ErrInvalid, err)
	}
	s.transport = newTransport(guard, config.TLSConfig)
	return s, nil
}

// visible returns the fields of a Config that may be printed. Of the secrets these are the names.
func (c Config) visible() []slog.Attr {
	return []slog.Attr{
		slog.Any("secrets", slices.Sorted(maps.Keys(c.Secrets))),
		slog.Any("allow", c.Allow),
		slog.Any("deny", c.Deny),
		slog.Duration("timeout", c.Timeout),
	}
}

// String returns the Config without its secrets. The verbs %v and %+v use it.
func (c Config) String() string { return fmt.Sprint(c.visible()) }

// GoString returns the same for %#v.
func (c Config) GoString() string { return "webhook.Config" + c.String() }

// LogValue returns the same for slog.
func (c Config) LogValue() slog.Value { return slog.GroupValue(c.visible()...) }
