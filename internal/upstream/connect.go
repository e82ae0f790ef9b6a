package upstream

import (
	"context"
	"errors"
	"net/http"
)

// mostStarts bounds how often Start makes a link: the first, one for what a backend answered too late, and one for a backend
// that is no longer what it was.
const mostStarts = 3

// Start is Open over a link that it makes, and over another one while a process has to be started again, because it was spoken to in
// the wrong era. The errors are those of [Open], and of link.
func Start(ctx context.Context, link func(context.Context) (Link, error), o Options) (*Conn, error) {
	for start := 1; ; start++ {
		l, err := link(ctx)
		if err != nil {
			return nil, err
		}
		c, err := Open(ctx, l, o)
		f, ok := errors.AsType[*Failure](err)
		if !ok || f.Why != ReasonRestart || start == mostStarts {
			return c, err
		}
		if o.Known = f.Era; f.Era == EraModern {
			o.Want = EraModern
		}
	}
}

// OpenURL opens a connection to a server of which only the URL is known: over Streamable HTTP, and if the
// server knows nothing of that, over HTTP+SSE (2026-07-28, streamable HTTP, backward compatibility).
// The errors are those of [Open].
func OpenURL(ctx context.Context, h HTTPOptions, o Options) (*Conn, error) {
	c, err := Open(ctx, NewHTTP(h), o)
	if err == nil || !mayBeSSE(err) || o.Pinned && o.Known == EraModern {
		return c, err
	}
	o.Known = EraLegacy
	older, olderErr := Open(ctx, NewSSE(h), o)
	if olderErr != nil {
		return nil, err // the server has neither, and the newer transport says more
	}
	return older, nil
}

// mayBeSSE reports whether initialize failed as it does at a server of HTTP+SSE.
func mayBeSSE(err error) bool {
	f, ok := errors.AsType[*Failure](err)
	if !ok || f.Why != ReasonStatus {
		return false
	}
	switch f.Status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed:
		return true
	}
	return false
}
