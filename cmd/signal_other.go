//go:build !unix

package cmd

import "os"

// There are none here.
var quietSignal, unquietSignal os.Signal
