package cmd

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

func TestTrustedProxyOption(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"10.0.0.0/8":                "[10.0.0.0/8]",
		"10.0.0.7":                  "[10.0.0.7/32]",
		"10.0.0.7, 2001:db8::/32":   "[10.0.0.7/32 2001:db8::/32]",
		"2001:db8::1":               "[2001:db8::1/128]",
		"":                          "",
		"10.0.0.1/8":                "", // probably a mistake
		"10.0.0.0/33":               "",
		"10.0.0.7:80":               "",
		"proxy.example.org":         "",
		"fe80::1%eth0":              "",
		"::ffff:10.0.0.0/104":       "", // it would match no address
		"10.0.0.7,":                 "",
		"10.0.0.7 10.0.0.8":         "",
		strings.Repeat("10.", 1000): "",
	} {
		var found []netip.Prefix
		err := networks(&found)(given)
		if got := fmt.Sprint(found); want != "" && (err != nil || got != want) || want == "" && (err == nil || found != nil) {
			t.Errorf("%q: %v, %v", given, found, err)
		}
	}
}
