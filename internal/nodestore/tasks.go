package nodestore

import (
	"context"
	"fmt"

	"github.com/troupe-run/troupe/cluster"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/worker"
)

// Tasks keeps the tasks of a node, and their work, in a cluster.
type Tasks struct{ *cluster.Node }

// NewTasks returns the tasks of a node.
func NewTasks(n *cluster.Node) Tasks { return Tasks{n} }

var _ worker.Store = Tasks{}

// Gone reports whether a process is dead. A node that has not had its own lease for long enough cannot tell of one that is there whether it still has its work.
func (t Tasks) Gone(ctx context.Context, node, boot string) (bool, error) {
	gone, err := t.Node.Gone(ctx, store.Address{Node: node, Boot: boot})
	if err == nil && !gone && !t.Steady() {
		return false, fmt.Errorf("%w: whether a process has been without the store for long", store.ErrUnavailable)
	}
	return gone, err
}
