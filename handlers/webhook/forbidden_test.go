package webhook_test

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tasktable/tasktable/handlers/webhook"
	"github.com/tasktable/tasktable/handlers/webhook/contract"
)

// Every form of an address of this machine, or of another that is not public, fails the task for good, and reaches no
// server. TestAddressesAreRefusedByTheirRange has the ranges.
func TestForbiddenAddresses(t *testing.T) {
	t.Parallel()
	var reached atomic.Int32
	server := serve(t, func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	for _, test := range []struct{ host, rule string }{
		{"127.0.0.1", "loopback"},
		{"127.1.2.3", "loopback"},
		{"127.0.0.1.", "usual form"},
		{"2130706433", "usual form"},
		{"0x7f000001", "usual form"},
		{"0X7F000001", "usual form"},
		{"0x7f.0x0.0x0.0x1", "usual form"},
		{"017700000001", "usual form"},
		{"0177.0.0.1", "usual form"},
		{"0177.0.0.01", "usual form"},
		{"127.1", "usual form"},
		{"127.0.1", "usual form"},
		{"0", "usual form"},
		{"00000000.1", "usual form"},
		{"1.2.3.4.5", "usual form"},
		{"999.999.999.999", "usual form"},
		{"127.0.0.1.example.0x1", "usual form"},
		{"１２７.０.０.１", "loopback"}, // full-width digits and full stops become the usual ones
		{"①②⑦.⓪.⓪.①", "loopback"},
		{"0.0.0.0", "unspecified"},
		{"[::]", "unspecified"},
		{"[::1]", "loopback"},
		{"[0:0:0:0:0:0:0:1]", "loopback"},
		{"[::ffff:127.0.0.1]", "loopback"},
		{"[::ffff:7f00:1]", "loopback"},
		{"[::127.0.0.1]", "IPv4-compatible"},
		{"[64:ff9b::127.0.0.1]", "loopback"},
		{"[2002:7f00:1::]", "loopback"},
		{"[fe80::1%25lo]", "link-local"},
		{"10.0.0.1", "private"},
		{"169.254.169.254", "metadata"},
		{"localhost", "loopback"},
		{"LOCALHOST", "loopback"},
		{"localhost.", "loopback"},
		{"ⓛⓞⓒⓐⓛⓗⓞⓢⓣ", "loopback"},
		{"a.localhost", "loopback"},
		{"localtest.example", "loopback"},
		{"127.0.0.1.example.org", "loopback"},
		{"metadata.google.internal", "loopback"}, // the server of the test resolves all to 127.0.0.1
	} {
		t.Run(test.host, func(t *testing.T) {
			t.Parallel()
			config := webhook.Config{Resolver: resolver(t, always("127.0.0.1"))}
			payload := contract.HTTPRequest{URL: "http://" + test.host + ":" + portOf(t, server) + "/"}
			mustRefuse(t, config, payload, test.rule)
		})
	}
	t.Cleanup(func() {
		if n := reached.Load(); n > 0 {
			t.Errorf("%d requests have reached the server", n)
		}
	})
}

// mustRefuse sends a request. The task is told only that the host is refused. The log has the rule.
func mustRefuse(t *testing.T, config webhook.Config, payload contract.HTTPRequest, rule string) {
	t.Helper()
	log := &journal{}
	config.Logger = slog.New(slog.NewTextHandler(log, nil))
	err := run(t.Context(), t, newSender(t, config), attempt(payload))
	if !permanent(err) || !strings.HasSuffix(err.Error(), ": the host is refused; the node's log has the address and the rule") {
		t.Errorf("got %v, want a refusal", err)
	}
	if err != nil && !strings.Contains(payload.URL, "127.0.0.1") && strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("tells the address: %v", err)
	}
	if line := log.String(); !strings.Contains(line, "webhook refused") || !strings.Contains(line, rule) ||
		!strings.Contains(line, "task=task-7") {
		t.Errorf("log %s, want %s", line, rule)
	}
}

// A name that is good when it is looked up first, and forbidden when it is looked up for the next connection.
func TestRebinding(t *testing.T) {
	t.Parallel()
	inside := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the forbidden server is reached") })
	listener, err := net.Listen("tcp", "127.0.0.2:"+portOf(t, inside))
	if err != nil {
		t.Skip("needs the address 127.0.0.2 on this machine: ", err)
	}
	outside := httptest.NewUnstartedServer(answering(http.StatusNoContent, "Connection", "close"))
	_ = outside.Listener.Close()
	outside.Listener = listener
	outside.Start()
	t.Cleanup(outside.Close)
	sender := newSender(t, webhook.Config{
		Allow: []string{"127.0.0.2"}, // stands for a public address
		Resolver: resolver(t, func(_ string, asked int) []netip.Addr {
			if asked == 1 {
				return []netip.Addr{netip.MustParseAddr("127.0.0.2")}
			}
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}
		}),
	})
	payload := contract.HTTPRequest{URL: "http://rebind.example:" + portOf(t, inside) + "/"}
	if err := run(t.Context(), t, sender, attempt(payload)); err != nil {
		t.Fatalf("before: %v", err)
	}
	err = run(t.Context(), t, sender, attempt(payload))
	if !permanent(err) || !strings.Contains(err.Error(), "the host is refused") {
		t.Errorf("after: %v", err)
	}
}

func TestAllowAndDeny(t *testing.T) {
	t.Parallel()
	server := serve(t, answering(http.StatusOK))
	for name, test := range map[string]struct {
		allow, deny []string
		host        string
		want        string // "": it completes
	}{
		"nothing":                     {nil, nil, "intern.example", "loopback"},
		"the host":                    {[]string{"intern.example"}, nil, "intern.example", ""},
		"the host, in another case":   {[]string{"Intern.Example"}, nil, "INTERN.example", ""},
		"the host with a full stop":   {[]string{"intern.example"}, nil, "intern.example.", ""},
		"hosts below":                 {[]string{"*.example"}, nil, "intern.example", ""},
		"the range":                   {[]string{"127.0.0.0/8"}, nil, "intern.example", ""},
		"the address":                 {[]string{"127.0.0.1"}, nil, "127.0.0.1", ""},
		"another host":                {[]string{"extern.example"}, nil, "intern.example", "loopback"},
		"the host, but not its range": {[]string{"intern.example"}, []string{"127.0.0.0/8"}, "intern.example", "denied"},
		"both":                        {[]string{"127.0.0.1"}, []string{"*.example"}, "intern.example", "denied"},
		"a denied host":               {[]string{"127.0.0.1"}, []string{"intern.example"}, "Intern.Example.", "denied"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := webhook.Config{
				Allow: test.allow, Deny: test.deny, Resolver: resolver(t, always("127.0.0.1")),
			}
			payload := contract.HTTPRequest{URL: "http://" + test.host + ":" + portOf(t, server)}
			if test.want != "" {
				mustRefuse(t, config, payload, test.want)
			} else if err := run(t.Context(), t, newSender(t, config), attempt(payload)); err != nil {
				t.Error(err)
			}
		})
	}
}
