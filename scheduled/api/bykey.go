package api

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/tasktable/tasktable/scheduled/api/keys"
)

// ByKey authenticates by the keys of `tasktable keys`, which a request sends as Authorization: Bearer <key>.
func ByKey(authenticator *keys.Authenticator) Authenticate {
	return func(r *http.Request) (Caller, error) {
		scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return Caller{}, fmt.Errorf("%w: no header Authorization: Bearer", ErrUnauthenticated)
		}
		key, err := authenticator.Authenticate(r.Context(), strings.TrimSpace(secret))
		switch {
		case keys.IsRefusal(err):
			return Caller{Name: key.Name}, fmt.Errorf("%w: %w", ErrUnauthenticated, err) // revoked keys have a name
		case err != nil:
			return Caller{}, err
		}
		return Caller{
			Name: key.Name, Service: key.Service, Tenant: key.TenantID, Scopes: key.Scopes, Rate: key.Rate,
			Types: key.Types, Queues: key.Queues,
		}, nil
	}
}
