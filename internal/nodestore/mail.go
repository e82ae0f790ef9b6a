package nodestore

import (
	"context"
	"errors"
	"fmt"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/cluster"
)

// mail carries the messages of a node.
type mail struct {
	n *cluster.Node
	m *cluster.Mail
}

// NewMail returns what carries messages between a node and the others that share its servers, or nil if there are no others.
func NewMail(n *cluster.Node) actors.Mail {
	if n.Mail() == nil {
		return nil
	}
	return mail{n, n.Mail()}
}

func (s mail) Listen(receive func(*actors.Letter), missed func(actors.Address)) {
	s.m.Listen(func(l *cluster.Letter) {
		receive(&actors.Letter{From: actors.Address(l.From), Kind: l.Kind, Data: l.Data, Reply: l.Reply})
	}, func(from cluster.Peer) { missed(actors.Address(from)) })
}

func (s mail) Ask(ctx context.Context, to actors.Address, kind string, data []byte) ([]byte, error) {
	reply, err := s.m.Ask(ctx, cluster.Peer(to), kind, data)
	if errors.Is(err, cluster.ErrNobody) {
		return nil, fmt.Errorf("%w: %w", actors.ErrNobody, err)
	}
	return reply, storeError(err)
}

func (s mail) Send(to actors.Address, kind string, data []byte) {
	s.m.Send(cluster.Peer(to), kind, data)
}

func (s mail) Tell(kind string, data []byte) { s.m.Tell(kind, data) }

func (s mail) Others() []actors.Address {
	peers := s.m.Others()
	all := make([]actors.Address, len(peers))
	for i, p := range peers {
		all[i] = actors.Address(p)
	}
	return all
}

func (s mail) Gone(ctx context.Context, a actors.Address) (bool, error) {
	gone, err := s.n.Gone(ctx, cluster.Peer(a))
	return gone, storeError(err)
}

func (s mail) Heard(a actors.Address) bool { return s.m.Heard(cluster.Peer(a)) }
