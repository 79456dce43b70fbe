package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/handlers"
	command "github.com/tasktable/tasktable/handlers/command/contract"
	statement "github.com/tasktable/tasktable/handlers/statement/contract"
	webhook "github.com/tasktable/tasktable/handlers/webhook/contract"
	"github.com/tasktable/tasktable/scheduled/api"
	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/store"
)

const defaultAPIConns = 8

// callLockLimit is shorter than the time that a call has, so that the answer can say that a task is locked.
const callLockLimit = api.DefaultTimeout * 2 / 3

// apiSettings say whether the program serves the HTTP API, and how.
type apiSettings struct {
	on          bool
	conns       int
	addressRate int
	proxies     []netip.Prefix
	origins     []string
	tenantRole  string
}

func (s *apiSettings) options() []options.Option {
	return []options.Option{
		{Flag: "api", Variable: "TASKTABLE_API", Set: options.Bool(&s.on),
			Usage: "also serves the HTTP API, on --http-addr, to callers with a key (tasktable keys create)"},
		{Flag: "api-conns", Variable: "TASKTABLE_API_CONNS", Kind: "number", Set: options.Int(&s.conns, 1, 1000),
			Default: fmt.Sprint(defaultAPIConns),
			Usage:   "the most connections of the API's own pool, so that calls take none of the workers'"},
		{Flag: "api-address-rate", Variable: "TASKTABLE_API_ADDRESS_RATE", Kind: "number",
			Set: options.Int(&s.addressRate, 1, 1000000), Default: fmt.Sprint(api.DefaultAddressRate),
			Usage: "how many calls a second the API answers to one address"},
		{Flag: "api-trusted-proxy", Variable: "TASKTABLE_API_TRUSTED_PROXIES", Kind: "network", Repeatable: true,
			Set: networks(&s.proxies),
			Usage: "a proxy or a network of proxies, such as 10.0.0.0/8, whose header X-Forwarded-For tells the " +
				"address of the caller; may be repeated, or separated by commas (default none: a caller's address " +
				"is that of its connection)"},
		{Flag: "api-origin", Variable: "TASKTABLE_API_ORIGINS", Kind: "origin", Repeatable: true,
			Set: origins(&s.origins),
			Usage: "an origin whose pages may call the API from a browser, such as https://admin.example.org; may be " +
				"repeated, or separated by commas (default none)"},
		{Flag: "api-tenant-role", Variable: "TASKTABLE_API_TENANT_ROLE", Kind: "name",
			Set: options.Text(&s.tenantRole, 63),
			Usage: "the database role for calls whose key belongs to a tenant (default the schema's name and " +
				"_tenant)"},
	}
}

func origins(into *[]string) func(string) error {
	return options.Each(into, func(item string) (string, error) {
		parsed, err := url.Parse(item)
		if err != nil || parsed.Scheme != "https" && parsed.Scheme != "http" || parsed.Host == "" ||
			item != parsed.Scheme+"://"+parsed.Host {
			return "", errors.New("must be http:// or https:// and a host, with nothing after it, or several " +
				"separated by commas")
		}
		return item, nil
	})
}

// networks reads networks and single addresses.
func networks(into *[]netip.Prefix) func(string) error {
	return options.Each(into, func(item string) (netip.Prefix, error) {
		network, err := netip.ParsePrefix(item)
		if address, noAddress := netip.ParseAddr(item); noAddress == nil && address.Zone() == "" {
			network, err = netip.PrefixFrom(address, address.BitLen()), nil
		}
		if err != nil || network.Addr().Is4In6() || network != network.Masked() {
			return network, errors.New("must be an address such as 10.0.0.7, or a network such as 10.0.0.0/8 or " +
				"2001:db8::/32, or several separated by commas")
		}
		return network, nil
	})
}

// start begins to answer, on a pool of its own. The caller must call the returned function at the end.
func (s *apiSettings) start(
	ctx context.Context, d *database, schema store.Schema, server *startingHandler, tracer trace.TracerProvider,
	metrics *metrics, doubts func(string, []byte) []string, logger *slog.Logger,
) (stop func(), err error) {
	pool, err := d.ownPool(ctx, s.conns, callLockLimit)
	if err != nil {
		return nil, fmt.Errorf("make a pool of connections for the API: %w", err)
	}
	known := keys.New(keys.Config{Schema: schema, TenantRole: s.tenantRole})
	authenticator := keys.NewAuthenticator(keys.AuthenticatorConfig{Keys: known, DB: pool, Logger: logger})
	served, err := api.New(api.Config{
		Pool: pool, Store: store.Config{Schema: schema.String()}, Keys: known, AddressRate: s.addressRate,
		TrustedProxies: s.proxies, Authenticate: api.ByKey(authenticator),
		CheckPayload: checkPayload, Doubts: doubts, AllowOrigins: s.origins, Version: version(),
		Tracer: tracer, Logger: logger, Metrics: metrics.registry,
	})
	if err != nil {
		pool.Close()
		return nil, err
	}
	server.begin(served.Handler())
	return func() { server.stop(pool.Close) }, nil
}

// doubtsOf returns a function that looks for likely mistakes in a payload. It goes by the handlers and the webhooks of
// this node. most is the longest that a webhook takes.
func doubtsOf(
	registry *handlers.Registry, secrets map[string][]string, most time.Duration,
) func(string, []byte) []string {
	return func(taskType string, payload []byte) (doubts []string) {
		if field := registry.UnknownField(taskType, payload); field != "" {
			doubts = append(doubts, fmt.Sprintf("type %s has no payload field %q, which its handler here ignores",
				taskType, field))
		}
		var request webhook.HTTPRequest
		if taskType != request.TaskType() || json.Unmarshal(payload, &request) != nil {
			return doubts
		}
		if request.SignWith != "" && secrets[request.SignWith] == nil {
			doubts = append(doubts, fmt.Sprintf("this node has no secret %q, which sign_with names", request.SignWith))
		}
		if asked := request.TimeoutOr(most); asked > most {
			doubts = append(doubts, fmt.Sprintf(
				"timeout %s is over this node's webhook-timeout, so that the request ends after %s", asked, most))
		}
		return doubts
	}
}

// checkPayload refuses payloads of the ready-made types that break their rules.
func checkPayload(taskType string, payload []byte) error {
	isOf := func(name string) bool { return taskType == name || strings.HasPrefix(taskType, name+":") }
	switch {
	case taskType == (webhook.HTTPRequest{}).TaskType():
		return webhook.CheckJSON(payload)
	case isOf(command.Type): // also such as EXEC:backup
		return command.CheckJSON(payload)
	case isOf(statement.Type):
		return statement.CheckJSON(payload)
	}
	return nil
}
