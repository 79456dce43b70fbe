//go:build unix

package torture

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	runNode()
	goleak.VerifyTestMain(m,
		// A toxic that is taken away while its link is being closed waits for ever for somebody to take what it has.
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).read"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).write"))
}
