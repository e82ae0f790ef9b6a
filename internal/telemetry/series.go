package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Detail says by what operations are told apart in metrics.
type Detail uint8

// The details. DetailAuto is DetailTool as long as there are few series, and gets coarser for what
// comes then.
const (
	DetailAuto   Detail = iota
	DetailTool          // by server, method, and tool or prompt
	DetailServer        // by server and method
	DetailMethod        // by method
)

var detailNames = [...]string{DetailAuto: "auto", DetailTool: "tool", DetailServer: "server", DetailMethod: "method"}

func (d Detail) String() string {
	if int(d) >= len(detailNames) {
		return fmt.Sprintf("Detail(%d)", uint8(d))
	}
	return detailNames[d]
}

// ParseDetail returns the detail of a name.
func ParseDetail(name string) (Detail, bool) {
	for d, n := range detailNames {
		if n == name {
			return Detail(d), true
		}
	}
	return 0, false
}

// Bounds of the series of mcp.server.operation.duration: more are counted by method alone, of which
// there are few. Each series is 21 lines at /metrics, of 165 bytes, or 225 with the name of a tool: the
// bounds of DetailAuto keep them below 20 MB.
const (
	autoTool   = 1000  // with the name of a tool or prompt
	autoServer = 3500  // and of a server, for methods that have no such name
	autoTarget = 5000  // and for those that have one
	mostSeries = 20000 // with the name of a tool or prompt where the operator has chosen; autoTarget more have that of a server
)

// series decides what an operation is counted under.
type series struct {
	detail Detail
	coarse metric.Int64Counter
	log    *slog.Logger

	mu     sync.Mutex // guards the rest
	n      int        // how many series have the name of a server
	shared map[seriesKey]*count
	told   [DetailMethod + 1]bool
}

// seriesKey names a series that several operations may share.
type seriesKey struct {
	server, method, name, failure string
	via                           Via
}

// count is what one outcome of an operation is counted under.
type count struct {
	in     []metric.RecordOption
	coarse metric.AddOption // set if a name is missing for want of room
}

// coarser are the labels of troupe.metrics.coarse: the detail that is left.
var coarser = [...]metric.AddOption{
	DetailServer: metric.WithAttributeSet(attribute.NewSet(attribute.String("detail", "server"))),
	DetailMethod: metric.WithAttributeSet(attribute.NewSet(attribute.String("detail", "method"))),
}

func newSeries(d Detail, coarse metric.Int64Counter, log *slog.Logger) *series {
	return &series{detail: d, coarse: coarse, log: log, shared: make(map[seriesKey]*count)}
}

// countFor returns what an outcome of o is counted under. The operation keeps it.
func (s *series) countFor(o *Operation, v Via, failure string) *count {
	v = v.ofMetrics()
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted, tool, server := s.detail, mostSeries, mostSeries+autoTarget
	if s.detail == DetailAuto {
		wanted, tool, server = DetailTool, autoTool, autoServer
		if o.name != "" {
			server = autoTarget
		}
	}
	if wanted == DetailTool && o.name == "" {
		wanted = DetailServer
	}
	key := seriesKey{server: o.of.server, method: o.method, failure: failure, via: v}
	if wanted == DetailTool {
		named := key
		named.name = o.name
		c := s.shared[named] // of the same server, mounted before
		if c == nil && s.n < tool {
			s.n++
			c = &count{in: o.attrsOf(DetailTool, v, failure)}
			s.shared[named] = c
		}
		if c != nil {
			return c
		}
	}
	got := max(wanted, DetailServer)
	c := s.shared[key]
	if got == DetailServer && c == nil {
		if s.n < server {
			s.n++
		} else {
			got = DetailMethod
		}
	}
	if got == DetailMethod {
		if key.server = ""; len(s.shared) > 3*mostSeries && failure != "" {
			key.failure = OtherError
		}
		c = s.shared[key]
	}
	if c == nil {
		c = &count{in: o.attrsOf(got, v, key.failure)}
		s.shared[key] = c
	}
	if got == wanted {
		return c
	}
	s.tellCoarse(got)
	return &count{in: c.in, coarse: coarser[got]}
}

// tellCoarse logs that there is no room for a finer detail, once.
func (s *series) tellCoarse(left Detail) {
	if s.told[left] || s.log == nil {
		return
	}
	s.told[left] = true
	missing := map[Detail]string{DetailServer: "tools and prompts", DetailMethod: "servers"}[left]
	s.log.Warn("metrics have no room for the names of more "+missing+": what they do is counted without",
		"metric", "mcp.server.operation.duration", "series", s.n, "detail", left.String())
}

// countCoarse counts an operation that was recorded under c, if names are missing there.
func (s *series) countCoarse(ctx context.Context, c *count) {
	if c.coarse != nil {
		s.coarse.Add(ctx, 1, c.coarse)
	}
}
