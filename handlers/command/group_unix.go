//go:build unix

package command

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

const rootDirectory = "/"

func executable(info fs.FileInfo) bool { return info.Mode()&0o111 != 0 }

// terminate asks the program and all others of its group to end.
func terminate(leader *os.Process) error {
	err := syscall.Kill(-leader.Pid, syscall.SIGTERM)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// killGroup ends what a program has left in its group. The program itself has ended. Its number is not given to
// another process while the group has members. If the group has none, a new group would need the same number within
// microseconds to be hit.
func killGroup(leader *os.Process) { _ = syscall.Kill(-leader.Pid, syscall.SIGKILL) }
