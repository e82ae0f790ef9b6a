//go:build unix

package keeper

import (
	"context"
	"io"
	"log/slog"
	"net"
)

// StartEmbedded has the processes of this process itself, without a keeper: for programs that cannot start one. shim is the command of this program that calls [Main], if it has one; without it files and limits
// cannot be confined.
//
// What is lost: its processes end with this one (on Linux, by the system; elsewhere by the end of their input alone), and nobody can adopt them. Descendants that leave
// their session and their parents and change their environment are not found. Those that become orphans are reaped by whoever is the parent of orphans on the machine.
func StartEmbedded(ctx context.Context, o Options, boot string, shim []string) (*Client, error) {
	if err := checkBoot(boot); err != nil {
		return nil, err
	}
	log := o.Log
	if log == nil {
		log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	e := newEngine(log, boot, o.Release, 0, false, false, shim)
	ours, theirs := net.Pipe()
	over, end := context.WithCancel(context.Background())
	ended := make(chan struct{})
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = e.serve(theirs)
		end()
	}()
	go func() {
		defer close(ended)
		e.run(over)
	}()
	c, err := newClient(ctx, o, ours, nil)
	if err != nil {
		end()
		return nil, err
	}
	c.after = func() {
		<-served
		<-ended
	}
	return c, nil
}
