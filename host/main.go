package host

import (
	"os"
	"sync/atomic"

	"github.com/troupe-run/troupe/internal/keeper"
)

// keeperRole is the first argument of a process that this program starts to keep the processes of its backends. No program takes it for itself.
const keeperRole = "troupe-keeper"

// called says that Main was called.
var called atomic.Bool

// Main must be the first statement of the function main in a program that hosts commands. The program starts itself anew
// as the process that keeps them, which outlives it, and as the one that confines a command before it runs; there Main
// does that work and does not return. Anywhere else it does nothing, and costs nothing.
//
// Without it commands are direct children of the program: they end with it, a crash included, and what must be set in
// a process before it becomes the command, Options.Confinement's Rlimits and Files, can only be tried.
func Main() {
	if len(os.Args) > 1 && os.Args[1] == keeperRole {
		os.Exit(keeper.Main(os.Args[2:]))
	}
	called.Store(true)
}

// Kept returns the command with which this program begins a keeper of its processes, without the keeper's arguments. It
// is nil if [Main] was not called, or the system does not say where the program is. It is for whoever runs backends.
func Kept() []string {
	path, err := os.Executable()
	if err != nil || !called.Load() {
		return nil
	}
	return []string{path, keeperRole}
}
