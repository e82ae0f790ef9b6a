package operator

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/cluster"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/admin"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/telemetry"
	"github.com/troupe-run/troupe/mcp"
)

// sessions are the sessions of all principals, for the operator.
type sessions struct{ p *Process }

var _ admin.Sessions = sessions{}

// mostStreams is how many streams of a session are told of.
const mostStreams = 100

func (a sessions) Sessions(ctx context.Context, limit int, from uint64) (page admin.SessionPage, err error) {
	found, err := a.p.Store.Sessions(ctx, from, limit)
	if err != nil {
		return admin.SessionPage{}, err
	}
	page.Sessions = make([]admin.Session, len(found))
	for i, s := range found {
		if page.Sessions[i], err = a.describeSession(ctx, &s); err != nil {
			return admin.SessionPage{}, err
		}
	}
	if len(found) == limit {
		page.Next = found[limit-1].Rev + 1
	}
	return page, nil
}

func (a sessions) Session(ctx context.Context, id string) (admin.Session, error) {
	s, err := a.findSession(ctx, id)
	if err != nil {
		return admin.Session{}, err
	}
	return a.describeSession(ctx, &s)
}

func (a sessions) EndSession(ctx context.Context, id string) (admin.Session, error) {
	s, err := a.findSession(ctx, id)
	if err != nil {
		return admin.Session{}, err
	}
	told, err := a.describeSession(ctx, &s)
	if err != nil {
		return admin.Session{}, err
	}
	switch err = a.p.EndSession(ctx, &s); {
	case errors.Is(err, store.ErrNotFound):
		return admin.Session{}, admin.ErrNoSession
	case err != nil:
		return admin.Session{}, err
	}
	a.p.Log.Info("an operator has ended a session", "server", s.Server, "session", s.ID)
	return told, nil
}

// findSession reads a session by its id, or by the tag of it that logs and lists have.
func (a sessions) findSession(ctx context.Context, id string) (cluster.StoredSession, error) {
	tag := "#" + strings.TrimPrefix(id, "#")
	if masked := telemetry.Masked(id); masked != id {
		tag = masked
	}
	s, err := a.p.Store.FindSession(ctx, func(id string) bool { return telemetry.Hash(id) == tag })
	if errors.Is(err, store.ErrNotFound) {
		err = admin.ErrNoSession
	}
	return s, err
}

// describeSession is what is told of a session. A record that this release cannot read has no more than its key.
func (a sessions) describeSession(ctx context.Context, s *cluster.StoredSession) (admin.Session, error) {
	out := admin.Session{ID: telemetry.Hash(s.ID), Server: a.p.pathOf(s.Server), Tenant: s.Tenant, Streams: []admin.Stream{}}
	rec, ok := actors.DecodeSession(s.Data)
	if ok {
		out.Revision, out.Client, out.Subscribed = rec.Revision, clientName(rec.Client), len(rec.Subscribed)
		out.Created, out.Used, out.Expires = rec.Created.Round(time.Millisecond), rec.Written.Round(time.Millisecond), rec.Expires.Round(time.Millisecond)
	}
	streams, all, err := a.p.Store.Streams(ctx, s.Tenant+"."+s.Server+"."+s.ID, mostStreams)
	if err != nil {
		return out, err
	}
	out.AllStreams = all
	for _, st := range streams {
		w := actors.DecodeStream(st.Data) // of another release: its tag is told all the same
		told := admin.Stream{ID: telemetry.Hash(st.ID), Node: w.Node, Boot: w.Boot, Methods: []string{}, Standalone: st.ID == rec.Standalone}
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
