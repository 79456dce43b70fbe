package api

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/store"
)

// Limits of one call.
const (
	MaxBodyBytes = 1 << 20     // of a request's body
	MaxDepth     = 64          // of objects and arrays within each other in a request's body
	MaxTasks     = 1000        // tasks in one bulk call
	MaxWait      = time.Minute // of ?wait
)

// The defaults of Config.
const (
	DefaultAddressRate = 100
	DefaultCallerRate  = 1000
	DefaultTimeout     = 15 * time.Second
)

// Config configures an API. Pool and Authenticate are required.
type Config struct {
	// Pool is the pool of connections for calls. It must not be the pool of a node.
	Pool *pgxpool.Pool
	// Store says which schema has the tasks, and how payloads are encoded. Its Service is not used, because each
	// caller has its own.
	Store store.Config
	// Authenticate tells who calls. ByKey authenticates by the keys of `tasktable keys`. A service may give a function
	// of its own.
	Authenticate Authenticate
	// CheckPayload refuses the payload of a task that would fail, so that the caller learns of it at once. Its error
	// names the field and the rule. Nil means that every payload is accepted.
	CheckPayload func(taskType string, payload []byte) error
	// Doubts returns sentences about a payload that is accepted, but may not be meant, such as an unknown field. The
	// answer has them as warnings. Nil means none.
	Doubts func(taskType string, payload []byte) []string
	// Keys holds the calls of a tenant to its tasks. Nil means keys.New for the schema of Store, whose role of tenants
	// is the one that `tasktable migrate roles` makes.
	Keys *keys.Keys
	// AddressRate is how many calls a second the API answers to one address before it asks who calls. A burst may have
	// twice as many. 0 means DefaultAddressRate. Behind a proxy all calls come from one address, unless TrustedProxies
	// has it.
	AddressRate int
	// TrustedProxies are the networks of the proxies before the API. In a request from there, the address of the
	// caller is the last one of the header X-Forwarded-For that is not a trusted proxy. Each trusted proxy must add the
	// address it was called from to the header, as common proxies do. In other requests the header is ignored. Empty
	// means no proxy.
	TrustedProxies []netip.Prefix
	// CallerRate is how many calls a second a caller has that has no rate of its own. 0 means DefaultCallerRate.
	CallerRate int
	// Timeout is how long the database may take for a call, for example because the call waits for a lock. Then the
	// answer is 503, and the caller can try again. The time of ?wait does not count. 0 means DefaultTimeout.
	Timeout time.Duration
	// AllowOrigins are the origins whose pages may call the API from a browser, such as https://admin.example.org.
	// Empty means none.
	AllowOrigins []string
	// Version is the version in the OpenAPI document. "" means "dev".
	Version string
	// Tracer makes a span of each call. Nil means none.
	Tracer trace.TracerProvider
	// Metrics gets the counters of calls. One API can use it. Nil means that calls are not counted.
	Metrics prometheus.Registerer
	// Logger gets a line for each call. Nil means slog.Default.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.AddressRate = cmp.Or(c.AddressRate, DefaultAddressRate)
	c.CallerRate = cmp.Or(c.CallerRate, DefaultCallerRate)
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.Version = cmp.Or(c.Version, "dev")
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

// validate names every field that is wrong.
func (c Config) validate() error {
	var errs []error
	if c.Pool == nil {
		errs = append(errs, errors.New("pool is required"))
	}
	if c.Authenticate == nil {
		errs = append(errs, errors.New("authenticate is required"))
	}
	if c.AddressRate < 0 {
		errs = append(errs, fmt.Errorf("address rate must not be negative, not %d", c.AddressRate))
	}
	for _, network := range c.TrustedProxies {
		if !network.IsValid() {
			errs = append(errs, errors.New("trusted proxies must be networks, not the zero value"))
			break
		}
	}
	if c.CallerRate < 0 {
		errs = append(errs, fmt.Errorf("caller rate must not be negative, not %d", c.CallerRate))
	}
	if c.Timeout < 0 {
		errs = append(errs, fmt.Errorf("timeout must not be negative, not %v", c.Timeout))
	}
	if err := c.Store.Check(); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("api: invalid configuration: %w", err)
	}
	return nil
}

// Authenticate tells who sends a request. It returns an error that wraps ErrUnauthenticated if the request has no
// valid proof. Each other error is answered with 503, because the caller may be right and the check impossible.
type Authenticate func(*http.Request) (Caller, error)

// ErrUnauthenticated is wrapped by the error of an Authenticate that does not know the caller.
var ErrUnauthenticated = errors.New("no valid key")

// Caller is a program or a person that calls the API.
type Caller struct {
	// Name identifies the caller in logs. Its rate and its idempotency keys belong to the name.
	Name string
	// Service is recorded as the author of the caller's changes. "" means the name.
	Service string
	// Tenant keeps the caller to the tasks of this tenant. "" means all tasks.
	Tenant string
	// Types and Queues bind the caller: it changes tasks of these types and of these queues alone. Nil means all. But a
	// caller with a tenant has the types EXEC, RUN_SQL and SEND_EMAIL only if Types names them. See keys.NewKey.
	Types, Queues []string
	// Scopes are the caller's rights. keys.Read reads tasks, their history, queues, nodes and statistics. keys.Schedule
	// schedules tasks and calls the verbs on one task. keys.Operate changes many tasks at once, and pauses queues.
	Scopes []keys.Scope
	// Rate is how many calls a second the caller has. 0 means Config.CallerRate.
	Rate int
}
