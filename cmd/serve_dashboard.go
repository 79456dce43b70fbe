package cmd

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"time"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/scheduled/dashboard"
	"github.com/tasktable/tasktable/store"
)

const defaultDashboardConns = 4

// dashboardSettings say whether the program serves the dashboard, and to whom.
type dashboardSettings struct {
	on           bool
	open         bool
	conns        int
	idle         time.Duration
	userHeader   string
	scopesHeader string
	proxies      []netip.Prefix
	targets      []string // those of notices, if this program sends notices
}

func (s *dashboardSettings) options() []options.Option {
	return []options.Option{
		{Flag: "dashboard", Variable: "TASKTABLE_DASHBOARD", Set: options.Bool(&s.on),
			Usage: "also serves the dashboard, on --http-addr, to people who sign in with a key (tasktable keys " +
				"create)"},
		{Flag: "dashboard-conns", Variable: "TASKTABLE_DASHBOARD_CONNS", Kind: "number",
			Set: options.Int(&s.conns, 2, 1000), Default: fmt.Sprint(defaultDashboardConns),
			Usage: "the most connections of the dashboard's own pool"},
		{Flag: "dashboard-idle-limit", Variable: "TASKTABLE_DASHBOARD_IDLE_LIMIT", Kind: "duration",
			Set: options.Duration(&s.idle, time.Minute, dashboard.DefaultLifetime), Default: "2h",
			Usage: "how long somebody who has signed in with a key remains signed in without a request; an open page " +
				"sends requests; after 12h everybody must sign in again"},
		{Flag: "dashboard-user-header", Variable: "TASKTABLE_DASHBOARD_USER_HEADER", Kind: "header",
			Set: headerName(&s.userHeader),
			Usage: "the header in which a reverse proxy tells the name of the person that it has signed in, such as " +
				"X-Forwarded-User; needs --dashboard-trusted-proxy (default none: people sign in with a key)"},
		{Flag: "dashboard-scopes-header", Variable: "TASKTABLE_DASHBOARD_SCOPES_HEADER", Kind: "header",
			Set: headerName(&s.scopesHeader),
			Usage: "the header in which that proxy tells the person's scopes, such as read,schedule,operate,admin " +
				"(default none: everybody may read)"},
		{Flag: "dashboard-trusted-proxy", Variable: "TASKTABLE_DASHBOARD_TRUSTED_PROXIES", Kind: "network",
			Repeatable: true, Set: networks(&s.proxies),
			Usage: "a proxy or a network of proxies whose headers tell who somebody is; each must overwrite these " +
				"headers in every request; may be repeated, or separated by commas (default none)"},
		{Flag: "dashboard-open", Variable: "TASKTABLE_DASHBOARD_OPEN", Set: options.Bool(&s.open),
			Usage: "gives everybody on this machine all scopes of the dashboard without a key; only with an " +
				"--http-addr such as 127.0.0.1:8080, which other machines do not reach"},
	}
}

// proxyHeaders are headers that proxies add to requests. A proxy that adds none is not noticed.
var proxyHeaders = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"}

var headerSyntax = regexp.MustCompile(`^[A-Za-z0-9-]{1,100}$`)

func headerName(into *string) func(string) error {
	return func(given string) error {
		if !headerSyntax.MatchString(given) {
			return fmt.Errorf("must be the name of a header, such as X-Forwarded-User")
		}
		*into = given
		return nil
	}
}

// check refuses settings that contradict each other, or that would open the dashboard to other machines.
func (s *dashboardSettings) check(address string) error {
	const flag = "--dashboard (TASKTABLE_DASHBOARD)"
	switch {
	case address == "":
		return options.Usage(flag + " needs --http-addr (TASKTABLE_HTTP_ADDR)")
	case (s.userHeader == "") != (len(s.proxies) == 0):
		return options.Usage("--dashboard-user-header and --dashboard-trusted-proxy need each other")
	case s.scopesHeader != "" && s.userHeader == "":
		return options.Usage("--dashboard-scopes-header needs --dashboard-user-header")
	case s.open && s.userHeader != "":
		return options.Usage("--dashboard-open and --dashboard-user-header exclude each other")
	case s.open && !isLoopback(address):
		return options.Usage("--dashboard-open needs an --http-addr of this machine alone, such as 127.0.0.1:8080, " +
			"because the dashboard needs no key then")
	}
	return nil
}

// isLoopback reports whether an address to listen at, or the host of a request, is reached from this machine alone.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func (s *dashboardSettings) authenticate() dashboard.Authenticate {
	switch {
	case s.open:
		// A page of another site could lead its own host name to this address. Its requests name that host. A proxy on
		// this machine could pass on requests of other machines.
		return func(r *http.Request) (dashboard.Person, error) {
			if !isLoopback(r.Host) {
				return dashboard.Person{}, fmt.Errorf("%w: the host is not of this machine",
					dashboard.ErrUnauthenticated)
			}
			for _, header := range proxyHeaders {
				if r.Header.Get(header) != "" {
					return dashboard.Person{}, fmt.Errorf("%w: a proxy sent %s", dashboard.ErrUnauthenticated, header)
				}
			}
			return dashboard.Person{Name: "dashboard", Scopes: dashboard.All}, nil
		}
	case s.userHeader != "":
		return dashboard.ByHeader(dashboard.HeaderConfig{
			User: s.userHeader, Scopes: s.scopesHeader, TrustedProxies: s.proxies,
		})
	}
	return nil
}

// start begins to answer, on a pool of its own. The caller must call the returned function at the end.
func (s *dashboardSettings) start(
	ctx context.Context, d *database, schema store.Schema, tenantRole string, named environmentSettings,
	proxies []netip.Prefix, server *startingHandler, logger *slog.Logger,
) (stop func(), err error) {
	pool, err := d.ownPool(ctx, s.conns, 0)
	if err != nil {
		return nil, fmt.Errorf("make a pool of connections for the dashboard: %w", err)
	}
	board, err := dashboard.New(dashboard.Config{
		Pool: pool, Store: store.Config{Schema: schema.String()}, Authenticate: s.authenticate(), Logger: logger,
		CheckPayload: checkPayload, Environment: named.name, EnvironmentColor: named.color,
		NoticeTargets: s.targets, TrustedProxies: proxies, IdleLimit: s.idle,
		Keys: keys.New(keys.Config{Schema: schema, TenantRole: tenantRole}),
	})
	if err != nil {
		pool.Close()
		return nil, err
	}
	server.begin(board.Handler())
	return func() { server.stop(pool.Close) }, nil
}
