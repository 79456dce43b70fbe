package dashboard

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/store"
)

// Scopes say what a person may do. They are those of a key: with them, a person may do in the dashboard what a caller
// may do in the API, and no more. No scope includes another.
type Scopes uint8

// The scopes. A person without Read is not let in.
const (
	Read     Scopes = 1 << iota // look at pages
	Schedule                    // schedule, edit, delete, and use the verbs on tasks and recurring tasks
	Operate                     // retry and archive dead letters, and pause queues and types
	Admin                       // manage keys and notices
	All      = Read | Schedule | Operate | Admin
)

// ScopesOf returns the scopes of a key. It reports whether all of them are known.
func ScopesOf(given ...keys.Scope) (scopes Scopes, known bool) {
	for _, scope := range given {
		at := slices.Index(keys.Scopes(), scope)
		if at < 0 {
			return 0, false
		}
		scopes |= Read << at
	}
	return scopes, true
}

// String has the names of the scopes, such as "read, schedule".
func (s Scopes) String() string {
	var names []string
	for at, scope := range keys.Scopes() {
		if s&(Read<<at) != 0 {
			names = append(names, string(scope))
		}
	}
	return strings.Join(names, ", ")
}

// may reports whether all of the needed scopes are there. Nothing is allowed that names none.
func (s Scopes) may(needed Scopes) bool { return needed != 0 && s&needed == needed }

// Person is somebody who uses the dashboard.
type Person struct {
	// Name is recorded as the author of the person's changes.
	Name string
	// Scopes say what the person may do.
	Scopes Scopes
	// Tenant keeps the person to the tasks of this tenant. "" means all tasks.
	Tenant string
	// Types and Queues, separated by commas, bind the person to them: it changes no other tasks. "" means all. But a
	// person with a tenant has the types EXEC, RUN_SQL and SEND_EMAIL only if Types names them.
	Types, Queues string
}

// Authenticate tells who sends a request. Its error wraps ErrUnauthenticated if the request comes from nobody who is
// known. After any other error the answer is 503, because the check itself has failed.
type Authenticate func(*http.Request) (Person, error)

// ErrUnauthenticated is wrapped by the error of an Authenticate that does not know the person.
var ErrUnauthenticated = errors.New("not signed in")

// HeaderConfig configures ByHeader. User and TrustedProxies are required.
type HeaderConfig struct {
	// User is the header with the person's name, such as X-Forwarded-User.
	User string
	// Scopes is the header with the person's scopes, such as "read,schedule". A person whose header lacks read, or has
	// a name that is no scope, is not let in. Default (""): everybody has DefaultScopes.
	Scopes string
	// DefaultScopes are those of a person for whom the proxy sends no scopes. Default (0): Read.
	DefaultScopes Scopes
	// TrustedProxies are the networks of the proxies. The headers of other senders are not believed.
	TrustedProxies []netip.Prefix
}

// ByHeader authenticates by headers of a reverse proxy that has signed the person in. The proxy must overwrite both
// headers in each request. Otherwise a browser could send them.
func ByHeader(config HeaderConfig) Authenticate {
	if config.DefaultScopes == 0 {
		config.DefaultScopes = Read
	}
	return func(r *http.Request) (Person, error) {
		person := Person{Name: r.Header.Get(config.User), Scopes: config.DefaultScopes}
		// Of several headers of one name, one may be the browser's own, which the proxy has not overwritten.
		if len(r.Header.Values(config.User)) > 1 || len(r.Header.Values(config.Scopes)) > 1 {
			return Person{}, ErrUnauthenticated
		}
		if !sentBy(r, config.TrustedProxies) || !validName(person.Name) {
			return Person{}, ErrUnauthenticated
		}
		if given := r.Header.Get(config.Scopes); config.Scopes != "" && given != "" {
			var names []keys.Scope
			for name := range strings.SplitSeq(given, ",") {
				names = append(names, keys.Scope(strings.TrimSpace(name)))
			}
			person.Scopes, _ = ScopesOf(names...) // none if one is unknown
		}
		if !person.Scopes.may(Read) {
			return Person{}, ErrUnauthenticated
		}
		return person, nil
	}
}

func sentBy(r *http.Request, networks []netip.Prefix) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	address, err := netip.ParseAddr(host)
	return err == nil && slices.ContainsFunc(networks, func(network netip.Prefix) bool {
		return network.Contains(address.Unmap().WithZone(""))
	})
}

// validName is the rule of a change's author.
func validName(name string) bool {
	return name != "" && len(name) <= store.MaxIDBytes && utf8.ValidString(name) &&
		!strings.ContainsFunc(name, unicode.IsControl)
}

// ownerOf is the person who signs in with a key. known is false if the key is for programs alone.
func ownerOf(key keys.Key) (person Person, known bool) {
	scopes, known := ScopesOf(key.Scopes...)
	return Person{Name: key.Service, Tenant: key.TenantID, Scopes: scopes, Types: strings.Join(key.Types, ","),
		Queues: strings.Join(key.Queues, ",")}, known && scopes.may(Read)
}
