package transport

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/transport/server"
)

// Forwarded finds the client of a request that came through proxies. The zero value trusts no proxy.
type Forwarded struct {
	Trusted []netip.Prefix // addresses of proxies whose headers count
}

// maxHops bounds how many proxies a request may have come through.
var maxHops = limits.Hops.Value()

// Seen returns r with its client's address as RemoteAddr, where trusted proxies give it in Forwarded (RFC 7239) or
// X-Forwarded-For. The port is 0 if it is not known. Seen does not change r, and returns r itself if the headers say
// nothing.
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

// Client returns the address of the client whose request peer has delivered. It takes the hops in the headers from the
// right, where the nearest proxy wrote. While a hop is trusted, the hop before it counts; the first that is not trusted
// is the client. If a hop is no address, the client is the last hop that was one. Client ignores the headers and
// returns peer if Forwarded is not well-formed, or if both headers are there and name different clients.
func (f Forwarded) Client(peer netip.AddrPort, header http.Header) netip.AddrPort {
	if !f.trustsProxy(peer.Addr()) {
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
		return f.walkHops(peer, hops)
	case len(standard) == 0:
		return f.walkHops(peer, strings.Split(strings.Join(old, ","), ","))
	}
	a, b := f.walkHops(peer, hops), f.walkHops(peer, strings.Split(strings.Join(old, ","), ","))
	if a.Addr() != b.Addr() {
		return peer
	}
	return a
}

func (f Forwarded) walkHops(client netip.AddrPort, hops []string) netip.AddrPort {
	for n := 0; len(hops) > 0 && n < maxHops && f.trustsProxy(client.Addr()); n++ {
		hop, ok := parseNode(trimBlanks(hops[len(hops)-1]))
		if !ok {
			break
		}
		client, hops = hop, hops[:len(hops)-1]
	}
	return client
}

func (f Forwarded) trustsProxy(a netip.Addr) bool { return server.Within(f.Trusted, a) }

// parseNode reads an address, with or without a port: "192.0.2.1", "192.0.2.1:80", "2001:db8::1", "[2001:db8::1]" and
// "[2001:db8::1]:80". It returns false for names, for "unknown", and for the label of a hop that a proxy hides.
func parseNode(s string) (netip.AddrPort, bool) {
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

// forwardedHops returns the "for" of each element of Forwarded, "" for an element that has none or more than one. It
// returns false if the value is not well-formed, since a client could open a quotation that hides what a proxy adds
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

// pairValue reads the token or quoted string at the start of s and returns its length in s, or 0 if there is neither.
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

// tokenLen returns the length of the token (RFC 9110, 5.6.2) at the start of s.
func tokenLen(s string) int {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return i
		}
	}
	return len(s)
}
