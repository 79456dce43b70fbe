// Tasktable schedules tasks in a Postgres table and runs them at their time. See package cmd for the program, and the
// packages store, handlers and scheduled for the library.
package main

import (
	"os"

	"github.com/tasktable/tasktable/cmd"
)

func main() { os.Exit(cmd.Execute()) }
