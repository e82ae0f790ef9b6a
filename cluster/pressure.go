package cluster

import "context"

// nearFull is the share of a stream's budget, in percent, above which the store
// takes no new sessions and streams: those that run need the rest.
const nearFull = 90

// NearFull reports whether so much of the store is in use that new sessions and
// streams must be refused. It is measured with each renewal of the lease.
func (n *Node) NearFull() bool { return n.full.Load() }

// measure looks at how full the store is. What cannot be read stays as it was.
func (n *Node) measure(ctx context.Context) {
	full := false
	for _, name := range []string{"sessions", "events"} {
		s, err := n.fill(ctx, name)
		if err != nil {
			return
		}
		full = full || s.MaxBytes > 0 && s.Bytes > s.MaxBytes/100*nearFull
	}
	if full != n.full.Swap(full) {
		if full {
			n.log.Warn("store nearly full: new sessions and streams are refused", "limit", n.opts.MaxStore)
		} else {
			n.log.Info("store has room again")
		}
	}
}
