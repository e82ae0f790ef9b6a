package server

import (
	"net"
	"net/netip"

	"github.com/troupe-run/troupe/internal/limits"
)

// A Crowd says how many connections a Listener lets in, and gets what a server does not see of them. Its functions
// must not block.
type Crowd struct {
	// PerAddress bounds the connections of one address, All those of all together. 0 or less means no bound.
	PerAddress, All int

	// Network returns the part of an address that counts as one. Nil counts each address by itself.
	Network func(netip.Addr) netip.Addr

	// Exempt are addresses that PerAddress does not bound: proxies, which bring many clients.
	Exempt []netip.Prefix

	// Refused is called for each connection that was not let in, with the limit that it met.
	Refused func(limit *limits.Row, from netip.Addr)

	// Faulty is called for each connection that is closed because of the header of a request that no handler sees, with
	// the status of the response, or 0 if there is none, and a reason for metrics.
	Faulty func(status int, reason string)
}

// addressOf returns the part of c's peer that counts as one address. It is the zero Addr, which has no bound, if the
// peer has no address or is exempt.
func (w *Crowd) addressOf(c net.Conn) netip.Addr {
	tcp, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok || w.PerAddress <= 0 && w.All <= 0 {
		return netip.Addr{}
	}
	a := tcp.AddrPort().Addr().Unmap()
	if Within(w.Exempt, a) {
		return netip.Addr{}
	}
	if w.Network != nil {
		a = w.Network(a)
	}
	return a
}

// reportRefused reports to Refused.
func (w *Crowd) reportRefused(limit *limits.Row, from netip.Addr) {
	if w.Refused != nil {
		w.Refused(limit, from)
	}
}

// reportFaulty reports to Faulty.
func (w *Crowd) reportFaulty(status int, reason string) {
	if w.Faulty != nil {
		w.Faulty(status, reason)
	}
}

// Within reports whether an address is in one of the networks. A network of IPv4 may be written as one of IPv6, too.
func Within(networks []netip.Prefix, a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	for _, p := range networks {
		if p.Contains(a) || a.Is4() && p.Contains(netip.AddrFrom16(a.As16())) {
			return true
		}
	}
	return false
}
