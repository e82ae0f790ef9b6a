package main

import (
	"maps"
	"net"
	"slices"
	"sync"
)

// connGroup is connections that are broken together.
type connGroup struct {
	mu   sync.Mutex // guards the rest
	shut bool
	open map[net.Conn]bool
}

// add notes a connection, unless the group is shut.
func (g *connGroup) add(c net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open == nil {
		g.open = make(map[net.Conn]bool)
	}
	if !g.shut {
		g.open[c] = true
	}
	return !g.shut
}

func (g *connGroup) remove(c net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.open, c)
}

// setShut breaks all connections, and each that is made until the group is opened again.
func (g *connGroup) setShut(shut bool) {
	g.mu.Lock()
	g.shut = shut
	g.mu.Unlock()
	if shut {
		g.breakOpen()
	}
}

// breakOpen breaks the connections that there are.
func (g *connGroup) breakOpen() {
	g.mu.Lock()
	all := slices.Collect(maps.Keys(g.open))
	g.mu.Unlock()
	for _, c := range all {
		_ = c.Close()
	}
}
