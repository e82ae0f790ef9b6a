package transport

import (
	"net"
	"net/netip"

	"github.com/troupe-run/troupe/internal/limits"
)

// A Crowd says how many connections a DrainListener lets in.
type Crowd struct {
	// PerAddress bounds the connections of one address, All those of all together. 0 or less means no bound.
	PerAddress, All int

	// Network returns the part of an address that counts as one. Nil counts each address by itself.
	Network func(netip.Addr) netip.Addr

	// Exempt are addresses that PerAddress does not bound: proxies, which bring many clients.
	Exempt []netip.Prefix

	// Refused is called for each connection that was not let in, with the limit that it met, and for each that was
	// closed because its header was refused, with the status of the response or 0 if it got none. It must not block.
	Refused func(limit *limits.Row, status int, from netip.Addr)
}

// addressOf returns the part of c's peer that counts as one address. It is the zero Addr, which has no bound, if the
// peer has no address or is exempt.
func (w *Crowd) addressOf(c net.Conn) netip.Addr {
	tcp, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok || w.PerAddress <= 0 && w.All <= 0 {
		return netip.Addr{}
	}
	a := tcp.AddrPort().Addr().Unmap()
	if (Forwarded{Trusted: w.Exempt}).trusts(a) {
		return netip.Addr{}
	}
	if w.Network != nil {
		a = w.Network(a)
	}
	return a
}

// refused reports to Refused.
func (w *Crowd) refused(limit *limits.Row, status int, from netip.Addr) {
	if w.Refused != nil {
		w.Refused(limit, status, from)
	}
}
