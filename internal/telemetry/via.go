package telemetry

import (
	"net/netip"

	"go.opentelemetry.io/otel/attribute"

	"github.com/troupe-run/troupe/mcp"
)

// Via is how a message came: by which revision, and over what.
type Via struct {
	Revision mcp.Revision
	HTTP     uint8  // major version of HTTP; 0 is a pipe
	Client   string // address and port, as net/http has them; "" if there is none
}

// transport is the place of a Via among the sets of an [Operation].
func (v Via) transport() int { return min(int(v.HTTP), 1) }

// attrs are those of metrics.
func (v Via) attrs() []attribute.KeyValue {
	network := attribute.String("network.transport", "pipe")
	if v.HTTP > 0 {
		network = attribute.String("network.transport", "tcp")
	}
	if v.Revision == 0 {
		return []attribute.KeyValue{network}
	}
	return []attribute.KeyValue{network, attribute.String("mcp.protocol.version", v.Revision.String())}
}

// spanAttrs are those of spans.
func (v Via) spanAttrs() []attribute.KeyValue {
	attrs := v.attrs()
	switch v.HTTP {
	case 0:
		return attrs
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
