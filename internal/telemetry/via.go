package telemetry

import (
	"net/netip"

	"go.opentelemetry.io/otel/attribute"

	"github.com/troupe-run/troupe/mcp"
)

// Via is how a message came: by which revision, and over what.
type Via struct {
	Revision mcp.Revision
	HTTP     uint8  // major version of HTTP, or one of OverHTTP and OverPipe; 0 if it is not known
	Client   string // address and port, as net/http has them; "" if there is none
}

// What else Via.HTTP may be.
const (
	OverHTTP uint8 = 254 // of a version that is not known
	OverPipe uint8 = 255
)

// transports is how many places transport has.
const transports = 3

// transportIndex is the place of a Via among the sets of an [Operation].
func (v Via) transportIndex() int {
	switch v.HTTP {
	case 0:
		return 0
	case OverPipe:
		return 2
	}
	return 1
}

// ofMetrics is v without what metrics do not tell apart.
func (v Via) ofMetrics() Via {
	return Via{Revision: min(v.Revision, mcp.Latest), HTTP: [transports]uint8{0, OverHTTP, OverPipe}[v.transportIndex()]}
}

// attrs are those of metrics.
func (v Via) attrs() []attribute.KeyValue {
	var attrs []attribute.KeyValue
	switch v.transportIndex() {
	case 1:
		attrs = append(attrs, attribute.String("network.transport", "tcp"))
	case 2:
		attrs = append(attrs, attribute.String("network.transport", "pipe"))
	}
	if v.Revision != 0 {
		attrs = append(attrs, attribute.String("mcp.protocol.version", v.Revision.String()))
	}
	return attrs
}

// spanAttrs are those of spans.
func (v Via) spanAttrs() []attribute.KeyValue {
	attrs := v.attrs()
	switch v.HTTP {
	case 0, OverPipe:
		return attrs
	case OverHTTP:
		attrs = append(attrs, attribute.String("network.protocol.name", "http"))
	case 1:
		attrs = append(attrs, attribute.String("network.protocol.name", "http"), attribute.String("network.protocol.version", "1.1"))
	default:
		attrs = append(attrs, attribute.String("network.protocol.name", "http"), attribute.String("network.protocol.version", "2"))
	}
	if at, err := netip.ParseAddrPort(v.Client); err == nil {
		attrs = append(attrs, attribute.String("client.address", at.Addr().String()), attribute.Int("client.port", int(at.Port())))
	} else if v.Client != "" {
		attrs = append(attrs, attribute.String("client.address", v.Client))
	}
	return attrs
}
