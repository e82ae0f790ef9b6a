package backend

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/upstream"
	"github.com/troupe-run/troupe/mcp"
)

// usualLevel is what a session gets whose client has set no log level. A backend of the newer era logs nothing for a request without one.
const usualLevel = string(mcp.LevelInfo)

// levelWait bounds how long a call waits for its instance to take a log level.
const levelWait = 10 * time.Second

// A leveler tells an instance of the older era the log level that its callers want.
type leveler struct{ *instance }

// level is the log level that an instance was told last, "" for none. Whoever has put something into turn has it.
type level struct {
	turn chan struct{}
	told string
}

// tellLevel tells the instance a log level, unless it knows it. What it says to that is its own affair: clients get no message below their level.
// An instance that all share is told none, as its callers may be of several minds.
func (in leveler) tellLevel(ctx context.Context, want string) {
	if want == "" || in.isModern() || in.of.Options.Isolation == host.Shared || codec.Optional(in.conn.Settled().Capabilities, "logging") == nil {
		return
	}
	select {
	case in.level.turn <- struct{}{}:
		defer func() { <-in.level.turn }()
	case <-ctx.Done():
		return
	}
	if in.level.told == want {
		return
	}
	telling, cancel := context.WithTimeout(ctx, levelWait)
	defer cancel()
	params := append(codec.AppendString([]byte(`{"level":`), want), '}')
	if _, err := in.conn.Do(telling, upstream.Request{Method: mcp.MethodLoggingSetLevel, Params: params}); err != nil {
		in.b.c.Log.Debug("a backend was not told a log level", "backend", in.of.Name, "error", err)
	}
	if ctx.Err() == nil { // one that takes none is not asked again by each call
		in.level.told = want
	}
}
