package command

import "syscall"

// ownGroup puts the program at the head of a process group of its own. The kernel kills the program if this process
// dies, even by SIGKILL.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
