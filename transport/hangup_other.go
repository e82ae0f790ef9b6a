//go:build !linux

package transport

import "net"

// hangups watches nothing here.
type hangups struct{}

func (*hangups) watchConn(*Exchange, net.Conn) uint64 { return 0 }
func (*hangups) stopWatching(uint64)                  {}
