package host

import (
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
)

// Fleet starts n hosts, named a, b and so on, that share a NATS server, in virtual time, and runs f. begin, if not nil, is called for
// each before requests come. The test must not be parallel.
func Fleet(t *testing.T, n int, o troupe.Options, begin func(h *Host), f func(t *testing.T, hosts []*Host)) {
	t.Helper()
	kit.BubbleNATS(t, nil, func(t *testing.T, v *kit.VirtualNATS) {
		var all []*Host
		for i := range n {
			own := o
			own.Store.Node = string(rune('a' + i))
			own.Store.NATS.URL = v.Line(own.Store.Node).URL()
			h := New(t, own, nil)
			if begin != nil {
				begin(h)
			}
			all = append(all, h)
		}
		f(t, all)
	})
}
