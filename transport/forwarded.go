package transport

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/troupe-run/troupe/internal/limits"
)

// Forwarded finds out who made a request that came through proxies. The zero value trusts none.
type Forwarded struct {
	Trusted []netip.Prefix // addresses of proxies whose word counts
}

// maxHops bounds how many proxies a request may have come through.
var maxHops = limits.Hops.Value()

// Seen returns r as its client sent it: with the client's address for RemoteAddr, where trusted proxies say it in
// Forwarded (RFC 7239) or X-Forwarded-For. r is not changed, and returned as it is where nothing is said. The port is 0
// if it is not known.
func (f Forwarded) Seen(r *http.Request) *http.Request {
	if len(f.Trusted) == 0 {
		return r
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r
	}
	client := f.Client(peer, r.Header)
	if client == peer {
		return r
	}
	seen := new(http.Request)
	*seen = *r
	seen.RemoteAddr = client.String()
	return seen
}

// Client returns the address that a request came from which peer has delivered. The hops that the headers tell are
// taken from the right, where the nearest proxy wrote: as long as they are trusted the one before counts, and the
// first that is not is the client. Where that ends at something else than an address the client is the last hop that
// was one. A Forwarded that is not well-formed tells nothing, and neither do the two headers if both are there and tell
// different clients: then the client is peer.
func (f Forwarded) Client(peer netip.AddrPort, header http.Header) netip.AddrPort {
	if !f.trusts(peer.Addr()) {
		return peer
	}
	standard, old := header["Forwarded"], header["X-Forwarded-For"]
	var hops []string
	if len(standard) > 0 {
		var ok bool
		if hops, ok = forwardedHops(strings.Join(standard, ",")); !ok {
			return peer
		}
	}
	switch {
	case len(old) == 0:
		return f.walk(peer, hops)
	case len(standard) == 0:
		return f.walk(peer, strings.Split(strings.Join(old, ","), ","))
	}
	a, b := f.walk(peer, hops), f.walk(peer, strings.Split(strings.Join(old, ","), ","))
	if a.Addr() != b.Addr() {
		return peer
	}
	return a
}

func (f Forwarded) walk(client netip.AddrPort, hops []string) netip.AddrPort {
	for n := 0; len(hops) > 0 && n < maxHops && f.trusts(client.Addr()); n++ {
		hop, ok := node(trim(hops[len(hops)-1]))
		if !ok {
			break
		}
		client, hops = hop, hops[:len(hops)-1]
	}
	return client
}

func (f Forwarded) trusts(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	for _, p := range f.Trusted {
		if p.Contains(a) || a.Is4() && p.Contains(netip.AddrFrom16(a.As16())) { // a network may be written so, too
			return true
		}
	}
	return false
}

// node reads an address, with or without a port: "192.0.2.1", "192.0.2.1:80", "2001:db8::1", "[2001:db8::1]" and
// "[2001:db8::1]:80". Names, "unknown" and what a proxy calls a hop that it hides are none.
func node(s string) (netip.AddrPort, bool) {
	a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
	if err == nil && strings.HasPrefix(s, "[") == strings.HasSuffix(s, "]") && (a.Is6() || s[0] != '[') {
		return netip.AddrPortFrom(a.Unmap().WithZone(""), 0), true
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil || strings.HasPrefix(s, "[") != strings.Contains(host, ":") {
		return netip.AddrPort{}, false
	}
	if strings.HasPrefix(port, "_") { // a port that a proxy hides
		port = "0"
	}
	p, err := netip.ParseAddrPort(net.JoinHostPort(host, port))
	return netip.AddrPortFrom(p.Addr().Unmap().WithZone(""), p.Port()), err == nil
}

// forwardedHops returns what the elements of Forwarded have for "for", "" where that is missing or there is more than
// one. It returns false if the value is not well-formed: one client could hide in a quotation what a proxy has added
// behind it.
func forwardedHops(value string) (hops []string, ok bool) {
	for rest := value; ; {
		hop, named := "", 0
		for {
			rest = strings.TrimLeft(rest, " \t")
			name := rest[:tokenLen(rest)]
			if rest = rest[len(name):]; name == "" {
				// Elements and pairs may be empty.
				if rest != "" && rest[0] != ';' && rest[0] != ',' {
					return nil, false
				}
			} else {
				if !strings.HasPrefix(rest, "=") {
					return nil, false
				}
				v, n := pairValue(rest[1:])
				if n == 0 {
					return nil, false
				}
				rest = strings.TrimLeft(rest[1+n:], " \t")
				if strings.EqualFold(name, "for") {
					hop = v
					named++
				}
			}
			if rest == "" || rest[0] == ',' {
				break
			}
			if rest[0] != ';' {
				return nil, false
			}
			rest = rest[1:]
		}
		if named > 1 {
			hop = ""
		}
		hops = append(hops, hop)
		if rest == "" {
			return hops, true
		}
		rest = rest[1:]
	}
}

// pairValue reads a token or a quoted string at the start of s, and returns how long it is there; 0 is neither.
func pairValue(s string) (v string, n int) {
	if s == "" || s[0] != '"' {
		n = tokenLen(s)
		return s[:n], n
	}
	var b []byte
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return string(b), i + 1
		case c == '\\' && i+1 < len(s):
			i++
			b = append(b, s[i])
		case c < ' ' && c != '\t' || c == 0x7f:
			return "", 0
		default:
			b = append(b, c)
		}
	}
	return "", 0
}

// tokenLen is the length of the token (RFC 9110, 5.6.2) that s begins with.
func tokenLen(s string) int {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return i
		}
	}
	return len(s)
}
