package keeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"syscall"
	"time"
)

const (
	serviceTime = 5 * time.Second // how long a keeper that somebody starts anew may take to come back
	joinPoll    = 50 * time.Millisecond
)

// Join connects to the keeper that serves [Options.Socket], whoever has started it: an earlier process, or a service manager. Where there is none, one is started ([Spawn]), which ends first what a
// killed one has left; one that is about to end is waited for, and so is, for 5 s, one that a service manager starts anew (--stay). Without a socket it starts a keeper that ends with this connection.
//
// An error is one of [Dial] or Spawn; [ErrVersion] says that the keeper that is there, with its processes, is of a release that this one cannot speak to.
func Join(ctx context.Context, o Options, l Launch) (*Client, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Socket == "" {
		return Spawn(ctx, o, l)
	}
	o.keep = l.Keep
	for late, wait := time.Now().Add(lockTime), 10*time.Millisecond; ; wait = min(2*wait, joinPoll) {
		c, err := dialAgain(ctx, o)
		if c != nil || err != nil {
			return c, err
		}
		c, err = Spawn(ctx, o, l)
		switch {
		case !errors.Is(err, ErrRuns) && !isEnding(err), ctx.Err() != nil:
			return c, err
		case time.Now().After(late) && errors.Is(err, ErrRuns):
			return nil, fmt.Errorf("%w, and does not let this process in: its log may say why", err)
		case time.Now().After(late):
			return nil, err
		}
		sleep(ctx, wait) // another one was faster, or the one before still ends, or somebody else has used this one and left it with nothing
	}
}

// dialAgain connects to the keeper of a socket, and waits for one that somebody starts anew. It returns nothing if there is none.
func dialAgain(ctx context.Context, o Options) (*Client, error) {
	late := time.Now().Add(cmp.Or(o.patience, serviceTime))
	for {
		c, err := Dial(ctx, o)
		switch {
		case err == nil:
			return c, nil
		case !isEnding(err) && !nobodyThere(err):
			return nil, err
		}
		if _, stay := storedBoot(o.Socket); !stay || time.Now().After(late) {
			return nil, nil
		}
		if sleep(ctx, joinPoll); ctx.Err() != nil {
			return nil, fmt.Errorf("%w: %w", err, context.Cause(ctx))
		}
	}
}

// errHungUp says that a keeper has closed a connection in place of an answer: it is about to end, or was killed.
var errHungUp = errors.New("keeper: it has hung up")

// isEnding reports whether an error says that a keeper ends, and will be gone soon.
func isEnding(err error) bool { return errors.Is(err, ErrEnding) || errors.Is(err, errHungUp) }

// nobodyThere reports whether an error of Dial says that no keeper listens.
func nobodyThere(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}
