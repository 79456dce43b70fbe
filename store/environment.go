package store

import (
	"fmt"
	"regexp"

	"github.com/tasktable/tasktable/store/internal/check"
)

var environmentSyntax = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9 ._-]{0,62}[A-Za-z0-9])?$`)

// CheckEnvironment returns an error that wraps ErrInvalid if name cannot be the name of an environment, such as
// production or "staging 2", otherwise nil. Pages, notices and metrics show such a name. No table has it.
func CheckEnvironment(name string) error {
	if !environmentSyntax.MatchString(name) {
		return check.Invalid("environment", "must be 1 to 64 letters, digits, inner spaces or inner ._-",
			fmt.Sprintf("%.100q", name))
	}
	return nil
}
