package webhook

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
)

// guard decides which addresses a request may go to. It looks at the address that a connection is about to be made to,
// after the name was resolved. So a name that resolves to another address at its second lookup (DNS rebinding) does
// not get past it.
type guard struct {
	allow, deny targets
	dialer      net.Dialer
}

// targets is a list of the form that Config.Allow and Config.Deny have.
type targets struct {
	hosts    []string // "example.org", or ".example.org" for all hosts below it
	prefixes []netip.Prefix
}

func parseTargets(field string, entries []string) (found targets, err error) {
	for i, entry := range entries {
		if addr, err := netip.ParseAddr(entry); err == nil {
			entry = netip.PrefixFrom(addr, addr.BitLen()).String()
		}
		prefix, err := netip.ParsePrefix(entry)
		switch name := strings.ToLower(entry); {
		case err == nil && !prefix.Addr().Is4In6():
			found.prefixes = append(found.prefixes, prefix.Masked())
		case isHostName(strings.TrimPrefix(name, "*.")):
			found.hosts = append(found.hosts, strings.TrimPrefix(name, "*"))
		default:
			return targets{}, fmt.Errorf("%s must have host names such as example.org and *.example.org, addresses, "+
				"and ranges such as 10.1.0.0/16; number %d is none of them", field, i+1)
		}
	}
	return found, nil
}

// isHostName refuses forms of IPv4 addresses that some resolvers take, such as 127.1, 0x7f000001 and 2130706433. A
// name whose last label is a number is one of them.
func isHostName(name string) bool {
	outside := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '.' && r != '-' && r != '_'
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	return last != "" && len(name) <= 253 && !strings.ContainsFunc(name, outside) && !strings.Contains(name, "..") &&
		name[0] != '.' && strings.Trim(last, "0123456789") != "" && !strings.HasPrefix(last, "0x")
}

func (t targets) hasHost(host string) bool {
	return slices.ContainsFunc(t.hosts, func(entry string) bool {
		return host == entry || entry[0] == '.' && strings.HasSuffix(host, entry)
	})
}

func (t targets) prefixOf(ip netip.Addr) (netip.Prefix, bool) {
	i := slices.IndexFunc(t.prefixes, func(prefix netip.Prefix) bool { return prefix.Contains(ip) })
	if i < 0 {
		return netip.Prefix{}, false
	}
	return t.prefixes[i], true
}

// special are the ranges that are no public hosts, by IANA's registries of special-purpose addresses. The first that
// contains an address counts. IPv6 addresses outside 2000::/3 are refused without a line here.
var special = []struct {
	prefix netip.Prefix
	rule   string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "is unspecified"},
	{netip.MustParsePrefix("10.0.0.0/8"), "is private"},
	{netip.MustParsePrefix("100.64.0.0/10"), "is shared by a carrier (CGNAT)"},
	{netip.MustParsePrefix("127.0.0.0/8"), "is a loopback address"},
	{netip.MustParsePrefix("168.63.129.16/32"), "is a cloud's metadata service"}, // public by its range, but Azure's
	{netip.MustParsePrefix("169.254.169.254/32"), "is a cloud's metadata service"},
	{netip.MustParsePrefix("169.254.0.0/16"), "is link-local"},
	{netip.MustParsePrefix("172.16.0.0/12"), "is private"},
	{netip.MustParsePrefix("192.0.0.0/24"), "is reserved for protocols"},
	{netip.MustParsePrefix("192.0.2.0/24"), "is for documentation"},
	{netip.MustParsePrefix("192.88.99.0/24"), "is a relay of 6to4"},
	{netip.MustParsePrefix("192.168.0.0/16"), "is private"},
	{netip.MustParsePrefix("198.18.0.0/15"), "is for benchmarks"},
	{netip.MustParsePrefix("198.51.100.0/24"), "is for documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "is for documentation"},
	{netip.MustParsePrefix("224.0.0.0/4"), "is multicast"},
	{netip.MustParsePrefix("255.255.255.255/32"), "is the broadcast address"},
	{netip.MustParsePrefix("240.0.0.0/4"), "is reserved"},
	{netip.MustParsePrefix("::/128"), "is unspecified"},
	{netip.MustParsePrefix("::1/128"), "is a loopback address"},
	{netip.MustParsePrefix("::/96"), "is an IPv4-compatible address"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "is a local NAT64 address"},
	{netip.MustParsePrefix("2001::/32"), "is a Teredo address"},
	{netip.MustParsePrefix("2001::/23"), "is reserved for protocols"},
	{netip.MustParsePrefix("2001:db8::/32"), "is for documentation"},
	{netip.MustParsePrefix("3fff::/20"), "is for documentation"},
	{netip.MustParsePrefix("fd00:ec2::254/128"), "is a cloud's metadata service"},
	{netip.MustParsePrefix("fc00::/7"), "is unique-local"},
	{netip.MustParsePrefix("fe80::/10"), "is link-local"},
	{netip.MustParsePrefix("fec0::/10"), "is site-local"},
	{netip.MustParsePrefix("ff00::/8"), "is multicast"},
}

// These ranges contain an IPv4 address, at the byte offset. A gateway sends what goes there to the IPv4 address.
var (
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour = netip.MustParsePrefix("2002::/16")
	global    = netip.MustParsePrefix("2000::/3")
)

// rule returns why a connection to an address of a host is refused, or "" if it is not.
func (g *guard) rule(host string, ip netip.Addr) string {
	ip = ip.Unmap().WithZone("")
	if prefix, found := g.deny.prefixOf(ip); found {
		return "is in the denied range " + prefix.String()
	}
	embedded, bytes := netip.Addr{}, ip.As16()
	switch {
	case nat64.Contains(ip):
		embedded, _ = netip.AddrFromSlice(bytes[12:16])
	case sixToFour.Contains(ip):
		embedded, _ = netip.AddrFromSlice(bytes[2:6])
	}
	if _, found := g.allow.prefixOf(ip); !embedded.IsValid() && (found || g.allow.hasHost(host)) {
		return ""
	}
	if embedded.IsValid() {
		return g.rule(host, embedded)
	}
	for _, known := range special {
		if known.prefix.Contains(ip) {
			return known.rule
		}
	}
	if ip.Is6() && !global.Contains(ip) {
		return "is no public address"
	}
	return ""
}

// refusedError is a host or an address that the guard refuses.
type refusedError struct{ text string }

func (e refusedError) Error() string { return e.text }

// dial makes a connection of the HTTP client. The host is in ASCII by then.
func (g *guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	_, notIP := netip.ParseAddr(host)
	switch {
	case notIP != nil && !isHostName(name):
		return nil, refusedError{fmt.Sprintf("the host %q is refused: it is neither a name nor an address in its "+
			"usual form", host)}
	case g.deny.hasHost(name):
		return nil, refusedError{fmt.Sprintf("the host %s is refused: it is denied", name)}
	}
	dialer := g.dialer
	dialer.Control = func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return refusedError{"the address of the connection cannot be read"}
		}
		if rule := g.rule(name, to.Addr()); rule != "" {
			return refusedError{fmt.Sprintf("the address %s of the host %s is refused: it %s", to.Addr(), name, rule)}
		}
		return nil
	}
	return dialer.DialContext(ctx, network, address)
}
