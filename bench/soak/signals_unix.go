//go:build !windows

package main

import "syscall"

// How a process is made to stand still, and to go on.
const (
	sigStop = syscall.SIGSTOP
	sigCont = syscall.SIGCONT
)
