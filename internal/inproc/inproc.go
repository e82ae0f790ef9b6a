// Package inproc finds servers of this process by the host of an address. A test gives a program such an address, as it gives that of
// any other server, and no byte passes through the network: in virtual time, what waits for the network stands still.
package inproc

import (
	"errors"
	"net"
	"sync"
)

// Connect opens a connection to a server.
type Connect func() (net.Conn, error)

var servers sync.Map // Connect by host

// Serve has a host lead to a server until stop is called. Hosts need no more than to differ: [a-z0-9.-]+.
func Serve(host string, c Connect) (stop func()) {
	servers.Store(host, c)
	return func() { servers.Delete(host) }
}

// Has reports whether a host leads to a server of this process.
func Has(host string) bool {
	_, ok := servers.Load(host)
	return ok
}

// Dialer connects to hosts of this process, and to no others.
type Dialer struct{}

// Dial connects to the host of an address.
func (Dialer) Dial(_, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	c, ok := servers.Load(host)
	if !ok {
		return nil, &net.OpError{Op: "dial", Net: "inproc", Err: errors.New("no server of this process is " + host)}
	}
	return c.(Connect)()
}
