package cmd

import (
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/logging"
	"github.com/tasktable/tasktable/store"
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

func TestDoubts(t *testing.T) {
	t.Parallel()
	registry, err := handlers.NewRegistry(logging.Variant(slog.Default()))
	if err != nil {
		t.Fatal(err)
	}
	doubts := doubtsOf(registry, map[string][]string{"orders": {"whsec_"}}, 30*time.Second)
	for payload, want := range map[string]string{
		`{"type": "LOG", "message": "hi"}`:                "",
		`{"type": "LOG", "mesage": "hi"}`:                 `type LOG has no payload field "mesage"`,
		`{"type": "HTTP_REQUEST", "sign_with": "orders"}`: "",
		`{"type": "HTTP_REQUEST", "sign_with": "order"}`:  `this node has no secret "order"`,
		`{"type": "HTTP_REQUEST", "timeout": "30s"}`:      "",
		`{"type": "HTTP_REQUEST", "timeout": 31}`: "timeout 31s is over this node's webhook-timeout, so that the " +
			"request ends after 30s",
		`{"type": "HTTP_REQUEST", "url": "https://a.test"}`: "",
		`{"type": "OF_ANOTHER_NODE", "sign_with": "order"}`: "",
	} {
		got := strings.Join(doubts(store.JSON(payload).TaskType(), []byte(payload)), " ")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", payload, got, want)
		}
	}
}
