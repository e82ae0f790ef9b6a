package transport

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// A side is where a request came in. It decides which names the Host header may hold without being listed.
type side uint8

const (
	// beyond is any network: a page whose name was rebound to this address reaches it.
	beyond side = iota
	// onLoopback is a loopback address, which a rebound name reaches, too.
	onLoopback
	// withoutPort is what no page reaches: a UNIX socket, or a handler that is called without a listener.
	withoutPort
)

// sideOf returns the side on which r came in.
func sideOf(r *http.Request) side {
	switch addr := r.Context().Value(http.LocalAddrContextKey).(type) {
	case *net.TCPAddr:
		if addr.IP.IsLoopback() {
			return onLoopback
		}
	case *net.UnixAddr, nil:
		return withoutPort
	}
	return beyond
}

// Local reports whether r comes from this machine: it came in over a loopback address or a UNIX socket, its client's address is no
// other one, its Host is 127.0.0.1, [::1] or localhost, and it has no header by which a proxy says that it brings it from elsewhere. A proxy
// that adds none, and does not pass the Host on, cannot be told from a client of this machine.
func Local(r *http.Request) bool {
	name, _, _ := splitHost(r.Host)
	if sideOf(r) == beyond || !isLoopback(name) || passedOn(r.Header) {
		return false
	}
	client, err := netip.ParseAddrPort(r.RemoteAddr)
	return err != nil || client.Addr().Unmap().IsLoopback() // what is no address is the other end of a socket
}

// passedOn reports whether header has a field of a proxy, such as Via, X-Forwarded-Proto or X-Real-Ip.
func passedOn(header http.Header) bool {
	for name := range header {
		if name == "Forwarded" || name == "Via" || strings.HasPrefix(name, "X-Forwarded") || strings.HasSuffix(name, "-Ip") {
			return true
		}
	}
	return false
}

// hostAllowed checks the Host header, against DNS rebinding: a page whose name was made to stand for this server's
// address sends that name. An address, and localhost, cannot be rebound.
func (o *Options) hostAllowed(host string, from side) bool {
	if from == withoutPort && len(o.AllowHosts) == 0 {
		return true
	}
	name, port, ok := splitHost(host)
	if ok && from != withoutPort && isLoopback(name) {
		return true
	}
	for _, allowed := range o.AllowHosts {
		if allowed == "*" {
			return true
		}
		n, p, valid := splitHost(allowed)
		if ok && valid && strings.EqualFold(n, name) && (p == "" || p == port) {
			return true
		}
	}
	return ok && from == beyond && isAddress(name)
}

// originAllowed checks an Origin header that is there. It never allows the opaque origin "null", which any sandboxed
// page has.
func (o *Options) originAllowed(origin, host string, loopback bool) bool {
	scheme, authority, ok := splitOrigin(origin)
	if !ok {
		return false
	}
	for _, allowed := range o.AllowOrigins {
		if allowed == "*" || strings.EqualFold(allowed, origin) {
			return true
		}
	}
	standard := ""
	switch {
	case strings.EqualFold(scheme, "http"):
		standard = "80"
	case strings.EqualFold(scheme, "https"):
		standard = "443"
	default:
		return false
	}
	name, port, ok := splitHost(authority)
	if !ok {
		return false
	}
	if loopback && isLoopback(name) {
		return true
	}
	ownName, ownPort, ok := splitHost(host)
	if port == "" {
		port = standard
	}
	if ownPort == "" {
		ownPort = standard
	}
	return ok && strings.EqualFold(name, ownName) && port == ownPort
}

// splitOrigin splits an origin (RFC 6454, 6.1) into scheme and authority.
func splitOrigin(origin string) (scheme, authority string, ok bool) {
	scheme, authority, ok = strings.Cut(origin, "://")
	if !ok || scheme == "" || authority == "" {
		return "", "", false
	}
	for i := 0; i < len(scheme); i++ {
		c := scheme[i] | 0x20
		if (c < 'a' || c > 'z') && (i == 0 || !strings.ContainsRune("0123456789+-.", rune(scheme[i]))) {
			return "", "", false
		}
	}
	for i := 0; i < len(authority); i++ {
		if c := authority[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`/\?#@,"<>`, c) >= 0 {
			return "", "", false
		}
	}
	return scheme, authority, true
}

// splitHost splits "name", "name:port", "[v6]" and "[v6]:port". The name keeps its brackets.
func splitHost(host string) (name, port string, ok bool) {
	end := strings.IndexByte(host, ':')
	if strings.HasPrefix(host, "[") {
		end = strings.IndexByte(host, ']') + 1
		if end == 0 {
			return "", "", false
		}
	}
	if end < 0 {
		end = len(host)
	}
	name, rest := host[:end], host[end:]
	if rest != "" {
		port = rest[1:]
		if rest[0] != ':' || port == "" || len(port) > 5 {
			return "", "", false
		}
		for i := 0; i < len(port); i++ {
			if port[i]-'0' > 9 {
				return "", "", false
			}
		}
	}
	return name, port, name != ""
}

// isAddress reports whether name is an IP address as a Host header has it: IPv6 in brackets, without a zone.
func isAddress(name string) bool {
	inner, v6 := strings.CutPrefix(name, "[")
	if v6 {
		inner = strings.TrimSuffix(inner, "]")
	}
	a, err := netip.ParseAddr(inner)
	return err == nil && a.Is6() == v6 && a.Zone() == ""
}

func isLoopback(name string) bool {
	return name == "127.0.0.1" || name == "[::1]" || strings.EqualFold(name, "localhost")
}
