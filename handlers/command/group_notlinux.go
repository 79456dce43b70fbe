//go:build unix && !linux

package command

import "syscall"

// ownGroup puts the program at the head of a process group of its own.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
