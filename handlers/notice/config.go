package notice

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/email"
	"github.com/tasktable/tasktable/handlers/webhook"
	webhookcontract "github.com/tasktable/tasktable/handlers/webhook/contract"
	"github.com/tasktable/tasktable/store"
)

// Target is an address that notices are sent to. Its URL may have a secret, as those of Slack, Teams and Discord do. A
// Target that is printed or logged shows only its kind.
type Target struct {
	// Kind is the service at the URL, which decides the form of the message.
	Kind Kind
	// URL is that of a webhook. For ntfy it is the server's with the topic, such as https://ntfy.sh/topic.
	URL string `json:"-"`
	// Token is sent as "Authorization: Bearer". Default (""): none.
	Token string `json:"-"`
	// SignWith names a secret of Config.Webhook. The request is signed with it, by Standard Webhooks. Default (""): no
	// signature.
	SignWith string
}

// String returns the kind.
func (t Target) String() string { return string(t.Kind) }

// GoString returns the same for %#v.
func (t Target) GoString() string { return "notice.Target(" + string(t.Kind) + ")" }

// LogValue returns the same for slog.
func (t Target) LogValue() slog.Value { return slog.StringValue(string(t.Kind)) }

// Config says how notices are sent. DB is required. All nodes with notices need the same Email and Targets, because any
// of them may send a notice.
type Config struct {
	// DB is where the notices are read. It is usually the pool of the node.
	DB store.DB
	// Schema is the schema of the tables. The zero value is the default schema, tasktable.
	Schema store.Schema
	// Targets are the addresses that recipients name. A name has 1 to 63 letters, digits or _.-.
	Targets map[string]Target
	// Webhook says to which addresses the requests may go, by which secrets they are signed, and how long they may
	// take. The zero value sends to public addresses.
	Webhook webhook.Config
	// Email is the mail server for recipients with an address. Default (nil): none, and such notices are tried again.
	Email *email.Config
	// Environment is the name of the environment, such as production. Titles and texts have it. It has 1 to 64 letters,
	// digits, inner spaces or inner ._-. Default (""): none.
	Environment string
	// DashboardURL is the address of the dashboard, such as https://tasks.example.org. Texts link to the pages of tasks
	// there. It begins with https:// or http://, and ends with a host, a port or a path without a slash. It has at most
	// 200 bytes, and no user, query or fragment. Default (""): no links.
	DashboardURL string
}

// New checks the configuration and makes Notices. It opens no connection. The error wraps store.ErrInvalid.
func New(config Config) (*Notices, error) {
	made := &Notices{db: config.DB, schema: config.Schema, targets: maps.Clone(config.Targets),
		environment: config.Environment, dashboard: config.DashboardURL}
	if made.schema == (store.Schema{}) {
		made.schema, _ = store.NewSchema("") // the default is a good name
	}
	var errs []error
	if config.DB == nil {
		errs = append(errs, errors.New("DB is required"))
	}
	if config.Environment != "" {
		if err := store.CheckEnvironment(config.Environment); err != nil {
			errs = append(errs, fmt.Errorf("Environment: %w", err))
		}
	}
	if config.DashboardURL != "" {
		errs = append(errs, CheckDashboardURL(config.DashboardURL))
	}
	for _, name := range slices.Sorted(maps.Keys(config.Targets)) {
		if err := config.checkTarget(name, config.Targets[name]); err != nil {
			errs = append(errs, fmt.Errorf("Targets[%.100q]: %w", name, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("notice.Config: %w: %w", store.ErrInvalid, err)
	}
	var err error
	if made.requests, err = webhook.New(config.Webhook); err != nil {
		return nil, fmt.Errorf("notice.Config: %w", err)
	}
	if config.Email != nil {
		if made.mail, err = email.New(*config.Email); err != nil {
			return nil, fmt.Errorf("notice.Config: %w", err)
		}
	}
	return made, nil
}

var dashboardSyntax = regexp.MustCompile(`^https?://[A-Za-z0-9.:\[\]-]+(/[A-Za-z0-9._~-]+)*$`)

// CheckDashboardURL returns the error with which New would refuse a DashboardURL.
func CheckDashboardURL(given string) error {
	parsed, err := url.Parse(given)
	if err != nil || parsed.Hostname() == "" || len(given) > 200 || !dashboardSyntax.MatchString(given) {
		return errors.New("the dashboard's URL must be http:// or https://, a host, and perhaps a port and a path " +
			"without a slash at its end, of at most 200 bytes")
	}
	return nil
}

// Variants makes Notices and returns its handlers as arguments of handlers.NewRegistry. It returns the errors of New.
func Variants(config Config) ([]handlers.Part, error) {
	made, err := New(config)
	if err != nil {
		return nil, err
	}
	return []handlers.Part{handlers.Handle(made.Send), handlers.HandleTx(made.Watch)}, nil
}

var nameSyntax = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,63}$`)

// checkTarget does not repeat the URL or the token, because errors go to logs.
func (c Config) checkTarget(name string, target Target) error {
	if !nameSyntax.MatchString(name) {
		return errors.New("the name must be 1 to 63 letters, digits or _.-")
	}
	if formats[target.Kind] == nil {
		return fmt.Errorf("the kind must be %s, got %.20q", KindNames(), target.Kind)
	}
	if _, err := webhookcontract.ParseURL(target.URL); err != nil {
		return fmt.Errorf("the URL %w", err)
	}
	hidden := func(r rune) bool { return r <= ' ' || r > '~' }
	if strings.ContainsFunc(target.Token, hidden) || len(target.Token) > 4096 {
		return errors.New("the token must be at most 4096 visible ASCII characters")
	}
	if _, known := c.Webhook.Secrets[target.SignWith]; target.SignWith != "" && !known {
		return errors.New("SignWith must be the name of a secret of Webhook")
	}
	return nil
}

// KindNames lists the kinds for people.
func KindNames() string {
	var names []string
	for kind := range formats {
		names = append(names, string(kind))
	}
	slices.Sort(names)
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}
