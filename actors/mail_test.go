package actors

import (
	"context"
	"errors"
	"fmt"

	"github.com/troupe-run/troupe/internal/sim"
)

// post is a Mail by way of an office.
type post struct{ box *sim.Box }

var _ Mail = post{}

func (p post) Listen(receive func(*Letter), missed func(Address)) {
	p.box.Listen(func(node, boot, kind string, data []byte, reply func([]byte)) {
		receive(&Letter{From: Address{node, boot}, Kind: kind, Data: data, Reply: reply})
	}, func(node, boot string) { missed(Address{node, boot}) })
}

func (p post) Ask(ctx context.Context, to Address, kind string, data []byte) ([]byte, error) {
	answer, err := p.box.Ask(ctx, to.Node, to.Boot, kind, data)
	switch {
	case errors.Is(err, sim.ErrNobody):
		err = ErrNobody
	case err != nil:
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return answer, err
}

func (p post) Send(to Address, kind string, data []byte) { p.box.Send(to.Node, to.Boot, kind, data) }
func (p post) Tell(kind string, data []byte)             { p.box.Tell(kind, data) }

func (p post) Others() (all []Address) {
	p.box.Others(func(node, boot string) { all = append(all, Address{node, boot}) })
	return all
}

func (p post) Heard(a Address) bool { return p.box.Heard(a.Node, a.Boot) }

func (p post) Gone(ctx context.Context, a Address) (bool, error) {
	gone, err := p.box.Gone(ctx, a.Node, a.Boot)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return gone, err
}
