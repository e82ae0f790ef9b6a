package keeper

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"syscall"
	"time"
)

const joinTries = 3 // how often another keeper may come and go meanwhile

// Join connects to the keeper that serves [Options.Socket], whoever has started it: an earlier process, or a service manager. Where there is none, what a killed one has left is ended ([Sweep]), and one is started
// ([Spawn]); one that is about to end is waited for. Without a socket it starts a keeper that ends with this connection.
//
// An error is one of [Dial] or Spawn; [ErrVersion] says that the keeper that is there, with its processes, is of a release that this one cannot speak to. What cannot be swept is logged.
func Join(ctx context.Context, o Options, l Launch) (*Client, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Socket == "" {
		return Spawn(ctx, o, l)
	}
	o.keep = l.Keep
	for wait, tries := 10*time.Millisecond, 1; ; wait, tries = 2*wait, tries+1 {
		c, err := Dial(ctx, o)
		switch {
		case err == nil:
			return c, nil
		case errors.Is(err, ErrEnding): // it has no processes any more, and is not to be disturbed
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
			sweepLeft(ctx, o, l)
		default:
			return nil, err
		}
		c, err = Spawn(ctx, o, l)
		if !errors.Is(err, ErrRuns) || tries == joinTries {
			return c, err
		}
		sleep(ctx, wait) // another one was faster, or the one before still ends
	}
}
