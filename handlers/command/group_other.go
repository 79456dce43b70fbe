//go:build !unix

package command

import (
	"io/fs"
	"os"
	"syscall"
)

const rootDirectory = ""

func executable(fs.FileInfo) bool { return true }

func ownGroup() *syscall.SysProcAttr { return nil }

// terminate ends the program alone, because there are no process groups here.
func terminate(leader *os.Process) error { return leader.Kill() }

func killGroup(*os.Process) {}
