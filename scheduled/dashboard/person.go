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

// Role says what a person may do. Each role may do all that the roles before it may.
type Role string

// The roles.
const (
	Read    Role = "read"    // look at pages
	Operate Role = "operate" // act on tasks, recurring tasks and queues
	Admin   Role = "admin"   // manage keys and notices
)

// rank orders the roles. An unknown role has the rank 0.
func (r Role) rank() int { return slices.Index([]Role{Read, Operate, Admin}, r) + 1 }

func (r Role) may(needed Role) bool { return r.rank() >= needed.rank() && needed.rank() > 0 }

// Person is somebody who uses the dashboard.
type Person struct {
	// Name is recorded as the author of the person's changes.
	Name string
	// Role says what the person may do.
	Role Role
	// Tenant keeps the person to the tasks of this tenant. "" means all tasks.
	Tenant string
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
	// Role is the header with the person's role: read, operate or admin. Default (""): everybody has DefaultRole.
	Role string
	// DefaultRole is the role of a person for whom the proxy sends no role. Default (""): Read.
	DefaultRole Role
	// TrustedProxies are the networks of the proxies. The headers of other senders are not believed.
	TrustedProxies []netip.Prefix
}

// ByHeader authenticates by headers of a reverse proxy that has signed the person in. The proxy must overwrite both
// headers in each request. Otherwise a browser could send them.
func ByHeader(config HeaderConfig) Authenticate {
	if config.DefaultRole == "" {
		config.DefaultRole = Read
	}
	return func(r *http.Request) (Person, error) {
		person := Person{Name: r.Header.Get(config.User), Role: config.DefaultRole}
		// Of several headers of one name, one may be the browser's own, which the proxy has not overwritten.
		if len(r.Header.Values(config.User)) > 1 || len(r.Header.Values(config.Role)) > 1 {
			return Person{}, ErrUnauthenticated
		}
		if !sentBy(r, config.TrustedProxies) || !validName(person.Name) {
			return Person{}, ErrUnauthenticated
		}
		if given := r.Header.Get(config.Role); config.Role != "" && given != "" {
			person.Role = Role(given)
		}
		if person.Role.rank() == 0 {
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
	person = Person{Name: key.Service, Tenant: key.TenantID}
	switch {
	case !key.Allows(keys.Read):
		return Person{}, false
	case key.Allows(keys.Admin) && key.TenantID == "":
		person.Role = Admin
	case key.Allows(keys.Operate), key.Allows(keys.Admin):
		person.Role = Operate
	default:
		person.Role = Read
	}
	return person, true
}
