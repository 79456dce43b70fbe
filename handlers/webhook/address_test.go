package webhook

import (
	"net/netip"
	"strings"
	"testing"
)

func TestAddressesAreRefusedByTheirRange(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"0.0.0.0": "unspecified", "0.1.2.3": "unspecified", "10.0.0.1": "private", "10.255.255.255": "private",
		"100.64.0.1": "CGNAT", "100.100.100.200": "CGNAT", "100.127.255.255": "CGNAT", "127.0.0.1": "loopback",
		"127.255.255.254": "loopback", "168.63.129.16": "metadata", "169.254.169.254": "metadata",
		"169.254.0.1": "link-local", "172.16.0.1": "private", "172.31.255.255": "private", "192.0.0.8": "protocols",
		"192.0.2.1": "documentation", "192.88.99.1": "6to4", "192.168.0.1": "private", "198.18.0.1": "benchmarks",
		"198.19.255.255": "benchmarks", "198.51.100.1": "documentation", "203.0.113.9": "documentation",
		"224.0.0.1": "multicast", "239.255.255.255": "multicast", "240.0.0.1": "reserved",
		"255.255.255.255": "broadcast",

		"::": "unspecified", "::1": "loopback", "::7f00:1": "IPv4-compatible", "::8.8.8.8": "IPv4-compatible",
		"::ffff:127.0.0.1": "loopback", "::ffff:a00:1": "private", "::ffff:169.254.169.254": "metadata",
		"::ffff:0:127.0.0.1": "no public address", "64:ff9b::7f00:1": "loopback", "64:ff9b::10.0.0.1": "private",
		"64:ff9b::169.254.169.254": "metadata", "64:ff9b:1::1": "local NAT64", "100::1": "no public address",
		"2001::1": "Teredo", "2001:0:4136:e378:8000:63bf:3fff:fdd2": "Teredo", "2001:2::1": "protocols",
		"2001:10::1": "protocols", "2001:20::1": "protocols", "2001:db8::1": "documentation",
		"2002:7f00:1::": "loopback", "2002:a00:1::1": "private", "2002:a9fe:a9fe::": "metadata",
		"3fff::1": "documentation", "4000::1": "no public address", "5f00::1": "no public address",
		"fc00::1": "unique-local", "fd00:ec2::254": "metadata", "fd12:3456::1": "unique-local",
		"fe80::1": "link-local", "fe80::1%eth0": "link-local", "fec0::1": "site-local", "ff02::1": "multicast",
		"ff0e::1": "multicast",

		"1.1.1.1": "", "8.8.8.8": "", "100.63.255.255": "", "100.128.0.0": "", "172.32.0.1": "", "192.0.1.1": "",
		"198.20.0.1": "", "223.255.255.255": "", "::ffff:8.8.8.8": "", "64:ff9b::8.8.8.8": "", "2002:808:808::1": "",
		"2001:200::1": "", "2001:4860:4860::8888": "", "2606:4700:4700::1111": "", "2a00:1450::1": "",
	} {
		got := (&guard{}).rule("example.org", netip.MustParseAddr(address))
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
}

func TestAllowedAndDeniedAddresses(t *testing.T) {
	t.Parallel()
	allow, err := parseTargets("Allow", []string{"10.1.0.0/16", "192.168.7.7", "fd00::/8", "Intern.example.org",
		"*.corp.example.org"})
	if err != nil {
		t.Fatal(err)
	}
	deny, err := parseTargets("Deny", []string{"10.1.2.0/24", "8.8.8.8", "2606:4700::/32", "fd00:ec2::254"})
	if err != nil {
		t.Fatal(err)
	}
	g := &guard{allow: allow, deny: deny}
	for _, test := range []struct{ host, address, want string }{
		{"a", "10.1.0.1", ""},
		{"a", "10.2.0.1", "private"},
		{"a", "::ffff:10.1.0.1", ""},
		{"a", "64:ff9b::10.1.0.1", ""},
		{"a", "64:ff9b::10.2.0.1", "private"},
		{"a", "192.168.7.7", ""},
		{"a", "192.168.7.8", "private"},
		{"a", "fd12::1", ""},
		{"intern.example.org", "192.168.9.9", ""},
		{"intern.example.org", "64:ff9b::192.168.9.9", ""},
		{"other.example.org", "192.168.9.9", "private"},
		{"a.b.corp.example.org", "127.0.0.1", ""},
		{"corp.example.org", "127.0.0.1", "loopback"},
		{"badcorp.example.org", "127.0.0.1", "loopback"},
		{"a", "10.1.2.3", "denied range 10.1.2.0/24"},
		{"intern.example.org", "10.1.2.3", "denied range"},
		{"a", "64:ff9b::10.1.2.3", "denied range"},
		{"a", "8.8.8.8", "denied range 8.8.8.8/32"},
		{"a", "2002:808:808::1", "denied range 8.8.8.8/32"},
		{"a", "2606:4700:4700::1111", "denied range"},
		{"a", "fd00:ec2::254", "denied range"},
		{"a", "8.8.4.4", ""},
	} {
		got := g.rule(test.host, netip.MustParseAddr(test.address))
		if test.want == "" && got != "" || !strings.Contains(got, test.want) {
			t.Errorf("%s at %s: %q, want %q", test.host, test.address, got, test.want)
		}
	}
}

func TestHostNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"localhost", "example.org", "xn--exmple-cua.org", "a-b.c_d.example", "1.example", "4you.de"} {
		if !isHostName(name) {
			t.Errorf("%q is refused", name)
		}
	}
	for _, name := range []string{"", ".", "a..b", ".a", "a.", "127.1", "127.0.0.1", "2130706433", "0177.0.0.1",
		"0x7f000001", "0x7f.0.0.1", "1.2.3.0x4", "a b", "a/b", "a:80", "[::1]", "user@host", "exämple.org"} {
		if isHostName(name) {
			t.Errorf("%q is taken", name)
		}
	}
}
