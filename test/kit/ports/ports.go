// Package ports has ports for tests that listen at one again after it was free for a while, or tell it to a process before that listens.
package ports

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"testing"
)

// The ports are none that the system gives away by itself (32768 to 60999 on Linux, 49152 to 65535 elsewhere): a listener at port 0 of
// another test, or a connection, would have one of those as soon as it is free. Each process begins elsewhere.
const (
	first = 10_000
	count = 20_000
	apart = 61
)

var given atomic.Int64

// Free returns ports of 127.0.0.1 at which nobody listens, and that no other call returns.
func Free(t testing.TB, n int) (ports []int) {
	t.Helper()
	for tries := 0; len(ports) < n; tries++ {
		port := first + (int64(os.Getpid())*apart+given.Add(1))%count
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			if tries > 1000 {
				t.Fatal(err)
			}
			continue
		}
		_ = l.Close()
		ports = append(ports, int(port))
	}
	return ports
}

// Address returns one of them as an address to listen at.
func Address(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", Free(t, 1)[0])
}
