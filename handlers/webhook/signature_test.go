package webhook

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
)

// The vector is that of the libraries of Standard Webhooks: their tests in Go, Python and other languages share it.
func TestASignatureIsThatOfTheStandard(t *testing.T) {
	t.Parallel()
	key, err := parseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{}
	sign(header, [][]byte{key}, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0),
		[]byte(`{"test": 2432232314}`))
	for name, want := range map[string]string{
		"webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": "1614265330",
		"webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
	} {
		if got := header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestTheSignedIDHasNoFullStop(t *testing.T) {
	t.Parallel()
	header := http.Header{}
	sign(header, [][]byte{make([]byte, 24)}, "order.1:7", time.Unix(1, 0), nil)
	if got := header.Get("webhook-id"); got != "order%2E1:7" {
		t.Errorf("id %q", got)
	}
}

func TestSecretsAreChecked(t *testing.T) {
	t.Parallel()
	const good = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	for name, test := range map[string]struct {
		secrets map[string][]string
		want    string // "": they are good
	}{
		"one":                 {map[string][]string{"orders-API_2": {good}}, ""},
		"two":                 {map[string][]string{"orders": {good, "whsec_" + strings.Repeat("A", 84)}}, ""},
		"none":                {map[string][]string{"orders": nil}, "Secrets: orders has none"},
		"no prefix":           {map[string][]string{"orders": {good[6:]}}, "number 1 of orders must be whsec_"},
		"no Base64":           {map[string][]string{"orders": {good, good + "*"}}, "number 2 of orders must be whsec_"},
		"too short":           {map[string][]string{"orders": {"whsec_c2VjcmV0"}}, "24 to 64 bytes"},
		"too long":            {map[string][]string{"orders": {"whsec_" + strings.Repeat("A", 88)}}, "24 to 64 bytes"},
		"no name":             {map[string][]string{"": {good}}, "names of 1 to 64 letters"},
		"a secret for a name": {map[string][]string{good + "=": {good}}, "names of 1 to 64 letters"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := New(Config{Secrets: test.secrets})
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (!errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want %q", err, test.want)
			case err != nil && (strings.Contains(err.Error(), "MfKQ") || strings.Contains(err.Error(), "c2Vj")):
				t.Errorf("tells the secret: %v", err)
			}
		})
	}
}
