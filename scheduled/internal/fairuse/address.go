package fairuse

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// AddressOf returns the address of the caller. A trusted proxy says in X-Forwarded-For from which address a request
// came to it, at the right end of what other proxies and the caller have written there. Everything left of the first
// address that is not a trusted proxy could be forged. Of an IPv6 address it returns the /64.
func AddressOf(r *http.Request, trusted []netip.Prefix) string {
	from, known := parseAddress(r.RemoteAddr)
	if !known {
		return r.RemoteAddr
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		if !slices.ContainsFunc(trusted, func(network netip.Prefix) bool { return network.Contains(from) }) {
			break
		}
		before, known := parseAddress(strings.TrimSpace(hop))
		if !known {
			break // then the caller counts as the proxy that has passed this on
		}
		from = before
	}
	if from.Is6() {
		return netip.PrefixFrom(from, 64).Masked().String() // one client has all its addresses
	}
	return from.String()
}

// parseAddress reads an address, with or without a port.
func parseAddress(text string) (address netip.Addr, known bool) {
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}
	text = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	address, err := netip.ParseAddr(text)
	return address.Unmap().WithZone(""), err == nil
}
