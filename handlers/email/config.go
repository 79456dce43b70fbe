package email

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/mail"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/tasktable/tasktable/store"
)

// TLSMode says how the connection to the server is encrypted.
type TLSMode string

// The modes.
const (
	// TLSStartTLS begins without encryption and goes on only if the server agrees to encrypt (STARTTLS). It is the
	// default.
	TLSStartTLS TLSMode = "starttls"
	// TLSImplicit is TLS from the first byte (SMTPS).
	TLSImplicit TLSMode = "implicit"
	// TLSNone never encrypts. It is for a server on the same machine. The password is then sent to localhost only.
	TLSNone TLSMode = "none"
)

// AuthMechanism says how the client proves the user name and the password to the server.
type AuthMechanism string

// The mechanisms.
const (
	// AuthAuto takes the first mechanism that the server offers. Over TLS the order is SCRAM-SHA-256, SCRAM-SHA-1,
	// PLAIN, LOGIN, CRAM-MD5. Without TLS it is SCRAM-SHA-256, SCRAM-SHA-1, CRAM-MD5, PLAIN, LOGIN, and the last two
	// work to localhost only. AuthAuto is the default.
	AuthAuto        AuthMechanism = ""
	AuthPlain       AuthMechanism = "PLAIN"
	AuthLogin       AuthMechanism = "LOGIN"
	AuthCRAMMD5     AuthMechanism = "CRAM-MD5"
	AuthSCRAMSHA1   AuthMechanism = "SCRAM-SHA-1"
	AuthSCRAMSHA256 AuthMechanism = "SCRAM-SHA-256"
)

// DefaultTimeout is the default of Config.Timeout.
const DefaultTimeout = 30 * time.Second

const (
	minTimeout = 100 * time.Millisecond
	maxTimeout = 10 * time.Minute
)

// Config says which server sends the e-mails. Host and From are required. Every other field has a default. A Config
// that is printed or logged does not show its password.
type Config struct {
	// Host is the server's name or IP address, without the port.
	Host string
	// Port is 1 to 65535. Default (0): 587 for TLSStartTLS, 465 for TLSImplicit, 25 for TLSNone.
	Port int
	// TLS says how the connection is encrypted. Default (""): TLSStartTLS.
	TLS TLSMode
	// TLSConfig sets certificate authorities and other TLS options. New clones it. If it has no ServerName, the
	// certificate must be for Host. If it has no MinVersion, TLS 1.2 is the minimum. Default (nil): the machine's
	// certificate authorities.
	TLSConfig *tls.Config
	// Username and Password log in to the server. Give both or none. Default (""): no login.
	Username string
	Password string `json:"-"`
	// Auth is the mechanism of the login. Default (""): AuthAuto.
	Auth AuthMechanism
	// From is the sender of all mails, such as "events@example.org" or "Events <events@example.org>". The address
	// must be ASCII (write its domain as xn--...), because its domain is part of each Message-ID.
	From string
	// Hello is the host name with which this client introduces itself. Default (""): the machine's name, or
	// localhost.
	Hello string
	// Timeout bounds one delivery, from the lookup of the host until the server accepts the mail. It is 100 ms to 10
	// minutes. The task's lease bounds the delivery too. Default (0): 30 s.
	Timeout time.Duration
}

func (c Config) withDefaults() Config {
	c.TLS = cmp.Or(c.TLS, TLSStartTLS)
	c.Port = cmp.Or(c.Port, map[TLSMode]int{TLSStartTLS: 587, TLSImplicit: 465, TLSNone: 25}[c.TLS])
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.TLSConfig = cmp.Or(c.TLSConfig, &tls.Config{MinVersion: tls.VersionTLS12}).Clone()
	c.TLSConfig.ServerName = cmp.Or(c.TLSConfig.ServerName, c.Host)
	c.TLSConfig.MinVersion = cmp.Or(c.TLSConfig.MinVersion, tls.VersionTLS12)
	if c.Hello == "" {
		c.Hello = "localhost"
		if name, err := os.Hostname(); err == nil && isName(name) {
			c.Hello = name
		}
	}
	return c
}

// validate names every field that is wrong, not just the first. It never prints the password.
func (c Config) validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch {
	case c.Host == "":
		wrong("Host is required")
	case !isName(c.Host) && net.ParseIP(c.Host) == nil:
		wrong("Host must be a host name or an IP address, without a port, got %q", c.Host)
	}
	switch c.TLS {
	case TLSStartTLS, TLSImplicit, TLSNone:
		if c.Port < 1 || c.Port > 65535 {
			wrong("Port must be between 1 and 65535, got %d", c.Port)
		}
	default: // the port's default depends on the mode, so one error is enough
		wrong("TLS must be %s, %s or %s, got %q", TLSStartTLS, TLSImplicit, TLSNone, c.TLS)
	}
	if (c.Username == "") != (c.Password == "") {
		wrong("Username and Password must be given together or not at all")
	}
	switch c.Auth {
	case AuthAuto, AuthPlain, AuthLogin, AuthCRAMMD5, AuthSCRAMSHA1, AuthSCRAMSHA256:
	default:
		wrong(
			"Auth must be empty, %s, %s, %s, %s or %s, got %q",
			AuthPlain, AuthLogin, AuthCRAMMD5, AuthSCRAMSHA1, AuthSCRAMSHA256, c.Auth,
		)
	}
	if c.From == "" {
		wrong("From is required")
	} else if _, err := parseFrom(c.From); err != nil {
		wrong("From %w, got %q", err, c.From)
	}
	if !isName(c.Hello) {
		wrong("Hello must be a host name, got %q", c.Hello)
	}
	if c.Timeout < minTimeout || c.Timeout > maxTimeout {
		wrong("Timeout must be between %s and %s, got %s", minTimeout, maxTimeout, c.Timeout)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("email.Config: %w: %w", store.ErrInvalid, err)
	}
	return nil
}

// isName is coarse on purpose. It only has to keep out spaces, control characters, ports and paths.
func isName(name string) bool {
	outside := func(r rune) bool {
		return r != '.' && r != '-' && r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}
	return name != "" && len(name) <= 253 && !strings.ContainsFunc(name, outside)
}

func parseFrom(from string) (*mail.Address, error) {
	address, err := parseAddress(from)
	if err != nil {
		return nil, err
	}
	if !isASCII(address.Address) {
		return nil, errors.New("must be an ASCII address; write its domain as xn--")
	}
	return address, nil
}

// visible returns the fields of a Config that may be printed.
func (c Config) visible() []slog.Attr {
	return []slog.Attr{
		slog.String("host", c.Host),
		slog.Int("port", c.Port),
		slog.String("tls", string(c.TLS)),
		slog.String("username", c.Username),
		slog.Bool("password", c.Password != ""),
		slog.String("auth", string(c.Auth)),
		slog.String("from", c.From),
		slog.Duration("timeout", c.Timeout),
	}
}

// String returns the Config without its password. The verbs %v and %+v use it.
func (c Config) String() string { return fmt.Sprint(c.visible()) }

// GoString returns the same for %#v.
func (c Config) GoString() string { return "email.Config" + c.String() }

// LogValue returns the same for slog.
func (c Config) LogValue() slog.Value { return slog.GroupValue(c.visible()...) }
