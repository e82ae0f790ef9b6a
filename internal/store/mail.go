package store

import "context"

// Address names one boot of a node.
type Address struct {
	Node string `json:"node"`
	Boot string `json:"boot"`
}

// Letter is a message from another node. Its data belong to the receiver.
type Letter struct {
	From Address
	Kind string
	Data []byte
	// Reply sends the reply, once, from any goroutine. It is nil if the sender waits for none.
	Reply func(data []byte)
}

// Mail carries letters between the nodes that share a store, each at most once: whatever must not be
// lost goes through the store.
type Mail interface {
	// Listen begins to take letters: it calls receive for each, one at a time for each sender, from
	// goroutines of its own that receive must not block. missed is called when letters of Tell from
	// a node were lost. Listen is called once.
	Listen(receive func(*Letter), missed func(from Address))
	// Ask sends data to a node and returns its reply. ErrNobody: it was not delivered. ErrTooBig: it
	// was not sent. ErrUnavailable: both are unknown. It takes 5 s at most.
	Ask(ctx context.Context, to Address, kind string, data []byte) ([]byte, error)
	// Send sends data to a node and does not wait.
	Send(to Address, kind string, data []byte)
	// Tell sends data to all other nodes and does not wait.
	Tell(kind string, data []byte)
	// Others are the other nodes that were heard lately.
	Others() []Address
	// Gone is the one judge of whether a boot is dead, so that others may take over what it wrote.
	// ErrUnavailable: this node cannot tell, as it was without its own lease until a moment ago.
	Gone(ctx context.Context, a Address) (bool, error)
	// Heard reports whether a boot has been heard, however long ago, and has not said goodbye: its
	// name is not made up. It says nothing of whether it lives.
	Heard(a Address) bool
	// Steady reports whether this node has had its own lease for a while without a break: before
	// that, what it does not see of others says nothing about them.
	Steady() bool
}
