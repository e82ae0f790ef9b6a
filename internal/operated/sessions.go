package operated

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/cluster"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/telemetry"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/operator"
)

// mostStreams is how many streams of a session are told of.
const mostStreams = 100

// Sessions implements [operator.Operator].
func (p *Process) Sessions(ctx context.Context, q operator.Query) (page operator.SessionPage, err error) {
	if q, err = q.Check(nil); err != nil {
		return operator.SessionPage{}, err
	}
	page.Sessions, page.Next = []operator.Session{}, q.From
	theirs := p.whose(q.Principal)
	for looked := 0; looked < Looks && len(page.Sessions) < q.Limit; {
		n := q.Limit - len(page.Sessions)
		found, err := p.Store.Sessions(ctx, page.Next, n)
		if err != nil {
			return operator.SessionPage{}, err
		}
		for _, s := range found {
			if !theirs.includes(s.Tenant) || !p.isOf(s.Server, q.Server) {
				continue
			}
			told, err := p.describeSession(ctx, &s)
			if err != nil {
				return operator.SessionPage{}, err
			}
			page.Sessions = append(page.Sessions, told)
		}
		looked += n
		if page.Next = 0; len(found) < n {
			break
		}
		page.Next = found[n-1].Rev + 1
	}
	return page, nil
}

// Session implements [operator.Operator].
func (p *Process) Session(ctx context.Context, id string) (operator.Session, error) {
	s, err := p.findSession(ctx, id)
	if err != nil {
		return operator.Session{}, err
	}
	return p.describeSession(ctx, &s)
}

// EndSession implements [operator.Operator].
func (p *Process) EndSession(ctx context.Context, id string) (operator.Session, error) {
	s, err := p.findSession(ctx, id)
	if err != nil {
		return operator.Session{}, err
	}
	told, err := p.describeSession(ctx, &s)
	if err != nil {
		return operator.Session{}, err
	}
	end := &actors.OperatorEnd{Calls: actors.SessionKey{Tenant: s.Tenant, Server: s.Server, ID: s.ID}}
	_, calls := Endings{p}.endCallsHere(ctx, end)
	calls = errors.Join(calls, actors.EndThere(ctx, p.Node, end)) // the session ends also where a node does not say that its calls have
	switch err = (Endings{p}).EndStored(ctx, &s); {
	case errors.Is(err, store.ErrNotFound):
		return operator.Session{}, operator.ErrNoSession
	case err != nil:
		return operator.Session{}, errors.Join(err, calls)
	}
	p.Log.Info("an operator has ended a session", "server", s.Server, "session", s.ID)
	return told, calls
}

// EndStored ends a session in the store. store.ErrNotFound: it has ended.
func (p Endings) EndStored(ctx context.Context, s *cluster.StoredSession) error {
	svc, _ := p.Served(s.Server)
	return p.Node.EndSession(ctx, svc, actors.SessionKey{Tenant: s.Tenant, Server: s.Server, ID: s.ID})
}

// findSession reads a session by its id, or by the tag of it that logs and lists have.
func (p *Process) findSession(ctx context.Context, id string) (cluster.StoredSession, error) {
	tag := "#" + strings.TrimPrefix(id, "#")
	if masked := telemetry.MaskIDs(id); masked != id {
		tag = masked
	}
	s, err := p.Store.FindSession(ctx, func(id string) bool { return telemetry.Hash(id) == tag })
	if errors.Is(err, store.ErrNotFound) {
		err = operator.ErrNoSession
	}
	return s, err
}

// describeSession is what is told of a session. A record that this release cannot read has no more than its key.
func (p *Process) describeSession(ctx context.Context, s *cluster.StoredSession) (operator.Session, error) {
	out := operator.Session{ID: telemetry.Hash(s.ID), Server: p.pathOf(s.Server), Tenant: s.Tenant, Streams: []operator.Stream{}}
	rec, ok := actors.DecodeSession(s.Data)
	if ok {
		out.Revision, out.Client, out.Subscribed = rec.Revision, clientName(rec.Client), len(rec.Subscribed)
		out.Created, out.Used, out.Expires = rec.Created.Round(time.Millisecond), rec.Written.Round(time.Millisecond), rec.Expires.Round(time.Millisecond)
	}
	streams, all, err := p.Store.Streams(ctx, s.Tenant+"."+s.Server+"."+s.ID, mostStreams)
	if err != nil {
		return out, err
	}
	out.AllStreams = all
	for _, st := range streams {
		w := actors.DecodeStream(st.Data) // of another release: its tag is told all the same
		told := operator.Stream{ID: telemetry.Hash(st.ID), Node: w.Node, Boot: w.Boot, Methods: []string{}, Standalone: st.ID == rec.Standalone}
		for _, c := range w.Calls {
			told.Methods = append(told.Methods, c.Method)
		}
		out.Streams = append(out.Streams, told)
	}
	return out, nil
}

// clientName is what a client calls itself.
func clientName(info []byte) string {
	var c mcp.Implementation
	if len(info) == 0 || codec.Unmarshal(info, &c) != nil {
		return ""
	}
	return strings.TrimSpace(c.Name + " " + c.Version)
}
