//go:build unix

package cmd

import (
	"os"
	"syscall"
)

// A node is quiet from the first to the second.
var quietSignal, unquietSignal os.Signal = syscall.SIGTSTP, syscall.SIGCONT
