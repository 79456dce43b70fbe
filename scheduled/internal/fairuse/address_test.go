package fairuse_test

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/tasktable/tasktable/scheduled/internal/fairuse"
)

func TestAddressOfTheCaller(t *testing.T) {
	t.Parallel()
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:1::/48")}
	for name, c := range map[string]struct {
		peer  string
		given []string // headers X-Forwarded-For
		want  string
	}{
		"no proxy":                      {"192.0.2.1:1234", nil, "192.0.2.1"},
		"a forged header":               {"192.0.2.1:1234", []string{"198.51.100.7"}, "192.0.2.1"},
		"a forged header of a proxy":    {"192.0.2.1:1234", []string{"10.0.0.1"}, "192.0.2.1"},
		"a proxy":                       {"10.0.0.1:1234", []string{"192.0.2.1"}, "192.0.2.1"},
		"a proxy without the header":    {"10.0.0.1:1234", nil, "10.0.0.1"},
		"a proxy with an empty header":  {"10.0.0.1:1234", []string{""}, "10.0.0.1"},
		"forged through a proxy":        {"10.0.0.1:1234", []string{"198.51.100.7, 192.0.2.1"}, "192.0.2.1"},
		"forged as a proxy":             {"10.0.0.1:1234", []string{"10.0.0.9, 192.0.2.1"}, "192.0.2.1"},
		"two proxies":                   {"10.0.0.1:1234", []string{"192.0.2.1, 10.0.0.2"}, "192.0.2.1"},
		"two proxies, forged":           {"10.0.0.1:1234", []string{"198.51.100.7, 192.0.2.1,10.0.0.2"}, "192.0.2.1"},
		"two headers":                   {"10.0.0.1:1234", []string{"198.51.100.7", "192.0.2.1"}, "192.0.2.1"},
		"two headers of two proxies":    {"10.0.0.1:1234", []string{"192.0.2.1", "10.0.0.2"}, "192.0.2.1"},
		"two headers, the last empty":   {"10.0.0.1:1234", []string{"192.0.2.1", ""}, "10.0.0.1"},
		"a call of a proxy itself":      {"10.0.0.1:1234", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		"garbage":                       {"10.0.0.1:1234", []string{"unknown"}, "10.0.0.1"},
		"garbage of the caller":         {"10.0.0.1:1234", []string{"<script>, 192.0.2.1"}, "192.0.2.1"},
		"garbage before a proxy":        {"10.0.0.1:1234", []string{"192.0.2.1, _hidden, 10.0.0.2"}, "10.0.0.2"},
		"a name":                        {"10.0.0.1:1234", []string{"example.org"}, "10.0.0.1"},
		"a network":                     {"10.0.0.1:1234", []string{"192.0.2.0/24"}, "10.0.0.1"},
		"a port":                        {"10.0.0.1:1234", []string{"192.0.2.1:5678"}, "192.0.2.1"},
		"spaces":                        {"10.0.0.1:1234", []string{"\t198.51.100.7 ,  192.0.2.1  "}, "192.0.2.1"},
		"IPv6":                          {"10.0.0.1:1234", []string{"2001:db8:2::1"}, "2001:db8:2::/64"},
		"IPv6 and a port":               {"10.0.0.1:1234", []string{"[2001:db8:2::1]:5678"}, "2001:db8:2::/64"},
		"IPv6 in brackets":              {"10.0.0.1:1234", []string{"[2001:db8:2::1]"}, "2001:db8:2::/64"},
		"IPv6 with a zone":              {"[fe80::1%eth0]:1", []string{"192.0.2.1"}, "fe80::/64"},
		"an IPv6 proxy":                 {"[2001:db8:1::1]:1", []string{"192.0.2.1"}, "192.0.2.1"},
		"no IPv6 proxy":                 {"[2001:db8:2::1]:1", []string{"192.0.2.1"}, "2001:db8:2::/64"},
		"an IPv4 proxy as IPv6":         {"[::ffff:10.0.0.1]:1", []string{"::ffff:192.0.2.1"}, "192.0.2.1"},
		"a caller as an IPv4 within v6": {"10.0.0.1:1234", []string{"[::ffff:192.0.2.1]:80"}, "192.0.2.1"},
		"a Unix socket":                 {"@", []string{"192.0.2.1"}, "@"},
	} {
		request := &http.Request{RemoteAddr: c.peer, Header: http.Header{"X-Forwarded-For": c.given}}
		if got := fairuse.AddressOf(request, trusted); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		peer := fairuse.AddressOf(&http.Request{RemoteAddr: c.peer}, nil)
		if got := fairuse.AddressOf(request, nil); got != peer {
			t.Errorf("%s: without trusted proxies %s, want %s", name, got, peer)
		}
	}
}
