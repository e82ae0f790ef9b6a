package main

import (
	"fmt"

	"github.com/troupe-run/troupe/bench/loadgen"
)

// A scenario is a load of echo calls in a closed loop.
type scenario struct {
	name     string
	revision string
	clients  int
	size     int // of the text, in bytes
}

var scenarios = []scenario{
	{"echo-32", loadgen.DefaultRevision, 32, 105},
	{"echo-256", loadgen.DefaultRevision, 256, 105},
	{"stateless-32", loadgen.Stateless, 32, 105},
	{"echo-10k", loadgen.DefaultRevision, 32, 10_000},
}

func (s scenario) String() string {
	return fmt.Sprintf("echo of %d bytes, %d clients, revision %s", s.size, s.clients, s.revision)
}
