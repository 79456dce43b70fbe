//go:build !linux && !darwin

package localpg

import (
	"context"
	"fmt"
)

func start(context.Context, Config) (*Server, error) {
	return nil, fmt.Errorf("%w: set DATABASE_URL to a server, for instance one started by: %s", ErrUnsupported,
		dockerRun)
}
