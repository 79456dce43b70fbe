package dashboard

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/store"
)

// The defaults of Config.
const (
	DefaultTimeout   = 5 * time.Second
	DefaultLifetime  = 12 * time.Hour
	DefaultIdleLimit = 2 * time.Hour
	// DefaultSignInRate is enough for the people behind one address. Nobody guesses a key, however many attempts there
	// are. The bound keeps them from the database.
	DefaultSignInRate = 5
)

// environmentColors have white text on them, with a contrast of at least 5.5 to 1.
var environmentColors = []string{"gray", "red", "orange", "green", "blue", "purple"}

// EnvironmentColors returns the colors in which pages can show the name of their environment.
func EnvironmentColors() []string { return slices.Clone(environmentColors) }

// Config configures a Dashboard. Pool is required.
type Config struct {
	// Pool is the pool of connections for pages. It must not be the pool of a node. Open pages together use two of its
	// connections at most.
	Pool *pgxpool.Pool
	// Store says which schema has the tasks, and how payloads are encoded. Its Service is not used, because changes are
	// recorded in the name of the person.
	Store store.Config
	// Prefix is the path under which the service mounts the dashboard, such as /admin/tasks. Default (""): at /.
	Prefix string
	// Authenticate tells who sends a request. ByHeader authenticates by a header of a reverse proxy. A service may give
	// a function of its own. Nil means that people sign in with a key of `tasktable keys`.
	Authenticate Authenticate
	// Keys finds keys and holds the pages of a tenant to its tasks. Nil means keys.New for the schema of Store.
	Keys *keys.Keys
	// Lifetime is how long somebody who has signed in with a key remains signed in. 0 means DefaultLifetime.
	Lifetime time.Duration
	// IdleLimit is how long such a person remains signed in without a request. An open page sends requests. The end may
	// come up to five minutes later, because a request writes at most once in this time. 0 means DefaultIdleLimit. A
	// limit as long as Lifetime limits nothing.
	IdleLimit time.Duration
	// SignInRate is how many attempts a second to sign in one address may make. A burst may have twice as many. 0 means
	// DefaultSignInRate.
	SignInRate int
	// TrustedProxies are the networks of the proxies before the dashboard. In a request from there, the address is the
	// last one of the header X-Forwarded-For that is not a trusted proxy. Empty means no proxy.
	TrustedProxies []netip.Prefix
	// PayloadScope is the scope of those who see payloads and results. Default (0): Read, or nobody if Store has a
	// Codec, because encrypted payloads are meant to be hidden.
	PayloadScope Scopes
	// CheckPayload refuses the payload of a task that would fail, so that the person learns of it at once. The same
	// function belongs into the Config of the API. Nil means that every payload is taken.
	CheckPayload func(taskType string, payload []byte) error
	// Environment is the name of the environment, such as production. Each page shows it, so that nobody takes staging
	// for production. It has 1 to 64 letters, digits, inner spaces or inner ._-. Default (""): none.
	Environment string
	// EnvironmentColor is one of EnvironmentColors. Default (""): the first of them.
	EnvironmentColor string
	// NoticeTargets are the names of the targets of notices in the configuration of the nodes. The pages warn of a
	// recipient that has another one. Default (nil): they are not known, and no page warns.
	NoticeTargets []string
	// Timeout is how long the database may take for a page or an act. Then the page tells so. 0 means DefaultTimeout.
	Timeout time.Duration
	// Logger gets a line for each act, and for each page that failed. Nil means slog.Default.
	Logger *slog.Logger
}

func (c Config) withDefaults(schema store.Schema) Config {
	if c.Keys == nil {
		c.Keys = keys.New(keys.Config{Schema: schema})
	}
	c.Lifetime = cmp.Or(c.Lifetime, DefaultLifetime)
	c.IdleLimit = cmp.Or(c.IdleLimit, DefaultIdleLimit)
	c.SignInRate = cmp.Or(c.SignInRate, DefaultSignInRate)
	if c.PayloadScope == 0 && c.Store.Codec == nil {
		c.PayloadScope = Read
	}
	c.EnvironmentColor = cmp.Or(c.EnvironmentColor, environmentColors[0])
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

var prefixSyntax = regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)*$`)

// validate names every field that is wrong.
func (c Config) validate() error {
	var errs []error
	must := func(holds bool, rule string, got ...any) {
		if !holds {
			errs = append(errs, fmt.Errorf(rule, got...))
		}
	}
	isLength := func(d time.Duration) bool { return d == 0 || d >= time.Second && d <= keys.MaxExpiresIn }
	must(c.Pool != nil, "pool is required")
	must(prefixSyntax.MatchString(c.Prefix),
		"prefix must be a path such as /admin/tasks, without / at its end, got %.100q", c.Prefix)
	must(isLength(c.Lifetime), "lifetime must be 0 or from 1s to 876600h, got %v", c.Lifetime)
	must(isLength(c.IdleLimit), "idle limit must be 0 or from 1s to 876600h, got %v", c.IdleLimit)
	must(c.SignInRate >= 0, "sign-in rate must not be negative, got %d", c.SignInRate)
	must(c.PayloadScope&^All == 0, "payload scope must be of Read, Schedule, Operate and Admin, got %d", c.PayloadScope)
	if c.Environment != "" {
		errs = append(errs, store.CheckEnvironment(c.Environment))
	}
	must(c.EnvironmentColor == "" || slices.Contains(environmentColors, c.EnvironmentColor),
		"environment color must be one of %s, got %.100q", strings.Join(environmentColors, ", "), c.EnvironmentColor)
	must(c.Timeout >= 0, "timeout must not be negative, got %v", c.Timeout)
	if err := errors.Join(append(errs, c.Store.Check())...); err != nil {
		return fmt.Errorf("dashboard: invalid configuration: %w", err)
	}
	return nil
}
