package cmd

import (
	"io"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/tasktable/tasktable/cmd/internal/options"
)

// program is one run of the program. Tests make their own, with buffers and an environment.
type program struct {
	*options.Catalog
	stdin           *os.File // nil: none
	stdout          io.Writer
	stderr          io.Writer
	now             time.Time              // the time that tables show distances from; zero: the database's
	restoreTerminal atomic.Pointer[func()] // called before the process exits at once; nil: nothing to restore
}

// newProgram returns a program without stdin. environ has the form of os.Environ.
func newProgram(environ []string, stdout, stderr io.Writer) *program {
	return &program{Catalog: options.NewCatalog(environ), stdout: stdout, stderr: stderr}
}

// release is set by -ldflags "-X", because a build from a folder without .git does not know its version.
var release string

// version names the source of the binary. It is a tag for `go install …@v1.2.3`, and a commit for a checkout.
func version() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
