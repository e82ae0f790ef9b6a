package keeper

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"syscall"
	"time"
)

const (
	joinTries   = 3               // how often another keeper may come and go meanwhile
	serviceTime = 5 * time.Second // how long a keeper that somebody starts anew may take to come back
	servicePoll = 50 * time.Millisecond
)

// Join connects to the keeper that serves [Options.Socket], whoever has started it: an earlier process, or a service manager. Where there is none, what a killed one has left is ended ([Sweep]), and one is started
// ([Spawn]); one that is about to end is waited for, and so is, for 5 s, one that a service manager starts anew (--stay). Without a socket it starts a keeper that ends with this connection.
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
		c, err := dialAgain(ctx, o, l)
		if c != nil || err != nil {
			return c, err
		}
		c, err = Spawn(ctx, o, l)
		if !errors.Is(err, ErrRuns) || tries == joinTries {
			return c, err
		}
		sleep(ctx, wait) // another one was faster, or the one before still ends
	}
}

// dialAgain connects to the keeper of a socket, and waits for one that somebody starts anew. It returns nothing if there is none, and has ended then what a killed one has left.
func dialAgain(ctx context.Context, o Options, l Launch) (*Client, error) {
	late := time.Now().Add(cmp.Or(o.patience, serviceTime))
	for swept := false; ; {
		c, err := Dial(ctx, o)
		switch {
		case err == nil:
			return c, nil
		case errors.Is(err, ErrEnding): // it has no processes any more, and is not to be disturbed
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED):
			return nil, err
		case !swept:
			sweepLeft(ctx, o, l)
			swept = true
		}
		if _, stay := storedBoot(o.Socket); !stay || time.Now().After(late) {
			return nil, nil
		}
		if sleep(ctx, servicePoll); ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}
