package main

import "syscall"

// Windows has no such signals: the scenario stop ends with an error there.
const (
	sigStop = syscall.Signal(19)
	sigCont = syscall.Signal(18)
)
