package troupe

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/cluster"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/admin"
	"github.com/troupe-run/troupe/internal/apikey"
	"github.com/troupe-run/troupe/internal/nodestore"
	"github.com/troupe-run/troupe/internal/revocation"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/task"
	"github.com/troupe-run/troupe/internal/telemetry"
	"github.com/troupe-run/troupe/internal/worker"
	"github.com/troupe-run/troupe/mcp"
)

// operations are what an operator does to a Runtime: looks at it, and ends what revoked principals hold.
type operations struct {
	*Runtime
}

// openAdmin serves the socket of the data directory, if there is one, by which the command troupe looks at this process. The returned
// function ends that.
func (rt *operations) openAdmin() (shut func()) {
	if rt.opts.Dir == "" || rt.opts.Store.NoSocket {
		return func() {}
	}
	srv, err := admin.Listen(rt.opts.Dir, admin.Operated{Tasks: adminTasks{rt.Runtime}, Sessions: adminSessions{rt.Runtime}, Fleet: adminFleet{rt.Runtime}, Keys: apikey.NewOperated(rt.APIKeys(), accessError), Revoked: revocation.NewOperated(rt.revoked, accessError)})
	if err != nil {
		rt.log.Warn("troupe tasks, sessions, keys, revoke, nodes and drain cannot reach this process", "error", err)
		return func() {}
	}
	return func() {
		if err := srv.Close(); err != nil {
			rt.log.Warn("the socket of operators was not removed", "error", err)
		}
	}
}

// release is the version of this module in the program, as other nodes are told.
var release = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	const module = "github.com/troupe-run/troupe"
	if info.Main.Path == module {
		return info.Main.Version
	}
	for _, d := range info.Deps {
		if d.Path == module {
			return d.Version
		}
	}
	return ""
})

// nodeLoad is what this node tells the others of itself.
func (rt *operations) nodeLoad() cluster.Load {
	s := rt.node.Stats()
	return cluster.Load{Draining: rt.leaving.Load(), Calls: s.InFlight, Streams: s.Streams, Sessions: s.Sessions, Release: release()}
}

// adminFleet is this node, and the others that share its store, for the operator.
type adminFleet struct{ rt *Runtime }

var _ admin.Fleet = adminFleet{}

func (a adminFleet) Nodes(ctx context.Context) ([]admin.Node, error) {
	members, err := a.rt.cluster.ListMembers(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]admin.Node, 0, len(members))
	for _, m := range members {
		n := admin.Node{Name: m.Node, Boot: m.Boot, Self: m.Self, Lease: admin.LeaseGone, Servers: m.Servers}
		if m.Self {
			own := a.rt.operations.nodeLoad()
			m.Load = &own
		}
		if m.Heard >= 0 {
			n.HeardMS = new(m.Heard.Milliseconds())
		}
		if m.Held {
			n.Lease, n.Since = admin.LeaseHeld, &m.Since
		}
		if m.Held && m.Heard >= 0 {
			if n.LeftMS = new(m.Left.Milliseconds()); m.Left <= 0 {
				n.Lease = admin.LeaseLate
			}
		}
		if l := m.Load; l != nil {
			n.Load = &admin.Load{Release: l.Release, Draining: l.Draining, Calls: l.Calls, Streams: l.Streams, Sessions: l.Sessions}
		}
		all = append(all, n)
	}
	return all, nil
}

func (a adminFleet) Drain(ctx context.Context) (admin.Draining, error) {
	first := false
	if !a.rt.leaving.Load() {
		a.rt.drainer.dismiss.Do(func() { first = true })
	}
	if !first {
		return admin.Draining{}, admin.ErrDraining
	}
	a.rt.log.Info("an operator drains this process")
	close(a.rt.drainer.dismissed)
	d, err := a.Draining(ctx)
	d.Draining = true
	return d, err
}

func (a adminFleet) Draining(context.Context) (admin.Draining, error) {
	s := a.rt.node.Stats()
	return admin.Draining{Node: a.rt.Node(), Boot: a.rt.cluster.Boot(), Draining: a.rt.leaving.Load(), Calls: s.InFlight, Streams: s.Streams, Connections: s.Connections}, nil
}

// apiKeys are the keys in the store: what auth.StoredKeys stands for.
func (rt *operations) apiKeys() *apikey.Store { return apikey.New(nodestore.NewAPIKeys(rt.cluster)) }

// APIKeys returns the API keys in the store, for programs that make them for their users. The command troupe keys does so through the socket of the data directory.
func (rt *Runtime) APIKeys() APIKeys { return APIKeys{rt.operations.apiKeys(), rt.revoked} }

// APIKeys are the API keys in a store. Its methods may be called from any goroutine.
type APIKeys struct {
	s       *apikey.Store
	revoked *revocation.List
}

// Create makes a key with the Name, Scopes, Servers and Expires of want, and returns it with its secret, which is not kept.
func (k APIKeys) Create(ctx context.Context, want auth.APIKey) (key auth.APIKey, secret string, err error) {
	return k.s.Create(ctx, want)
}

// List returns all keys, the oldest first. One that was revoked, or has expired, is kept for some weeks.
func (k APIKeys) List(ctx context.Context) ([]auth.APIKey, error) { return k.s.List(ctx) }

// Rotate gives a key another secret. Those that it has count for overlap from now. expires is its new end, the zero time leaves it as it is. The key is named by its id, or by its name.
func (k APIKeys) Rotate(ctx context.Context, key string, overlap time.Duration, expires time.Time) (rotated auth.APIKey, secret string, err error) {
	return k.s.Rotate(ctx, key, overlap, expires)
}

// Revoke ends a key and what its principal holds: event streams, sessions, calls and tasks, on every node within 2 seconds. The key is named by its id, or by its name.
// An error with a key says that it is refused, and that not all of what it holds has ended: try again.
func (k APIKeys) Revoke(ctx context.Context, key string) (auth.APIKey, error) {
	ended, err := k.s.Revoke(ctx, key)
	if err == nil {
		_, err = k.revoked.EndKey(ctx, ended.ID)
	}
	return ended, err
}

// newRevocations returns the revocations in the store, of which nothing was read.
func (rt *operations) newRevocations() *revocation.List {
	return revocation.New(revocation.Config{Records: nodestore.NewRevocations(rt.cluster), Keys: rt.apiKeys(), Shared: rt.sharesStore, Log: rt.log, End: rt.endRevoked, EndStored: rt.endStored})
}

// tenantsOf are the tenants of a revocation: a subject is a user and a machine at each issuer, and a client is a machine. Nothing in a tenant says by which client its user came.
func (rt *operations) tenantsOf(r *revocation.Revocation) (tenants []string) {
	issuers := []string{r.Issuer}
	if r.Issuer == "" {
		rt.mu.Lock()
		issuers = append([]string{auth.KeyIssuer}, rt.issuers...)
		rt.mu.Unlock()
	}
	for _, issuer := range issuers {
		p := Principal{Issuer: issuer, Subject: cmp.Or(r.Subject, r.Client), Machine: true}
		tenants = append(tenants, p.tenantHash())
		if p.Machine = false; r.Subject != "" {
			tenants = append(tenants, p.tenantHash())
		}
	}
	return tenants
}

// endedAgain is how long after each other what the revoked hold, or tokens do not cover any more, is ended once more: what a request has begun that was let in just before, and took a
// while until then.
var endedAgain = [...]time.Duration{time.Second, 10 * time.Second}

// endRevoked ends what principals hold on this node.
func (rt *operations) endRevoked(ctx context.Context, m revocation.Match) {
	var tenants []string
	for i := range m {
		tenants = append(tenants, rt.tenantsOf(&m[i])...)
	}
	end := func(tenant func(string) bool, holder func(any) bool) {
		if err := actors.EndHeld(ctx, rt.node, tenant, holder); err != nil && ctx.Err() == nil {
			rt.log.Warn("not all that revoked principals hold has ended in the store", "error", err)
		}
	}
	end(func(tenant string) bool { return slices.Contains(tenants, tenant) }, func(holder any) bool {
		p := principalOf(holder)
		return m.Is(p.Issuer, p.Subject, p.Client)
	})
	rt.endTasks(ctx)
	repeatEnding(ctx, func() {
		end(func(string) bool { return false }, func(holder any) bool { // nothing of a token that was issued since
			c, ok := holder.(*caller)
			return ok && c.token != nil && rt.revoked.Refusal(c.token) != nil
		})
		rt.endTasks(ctx)
	})
}

// repeatEnding ends more at the times of endedAgain, until ctx ends.
func repeatEnding(ctx context.Context, end func()) {
	for _, wait := range endedAgain {
		select {
		case <-time.After(wait):
			end()
		case <-ctx.Done():
			return
		}
	}
}

// endNotCovered ends what was opened here with tokens that do not count any more, or not for that: the configuration has changed.
func (rt *operations) endNotCovered(ctx context.Context) {
	end := func() {
		ended := actors.EndUncovered(rt.node, func(server string, holder any) string { return rt.endReason(ctx, server, holder) })
		if ended > 0 {
			rt.log.Info("the configuration has changed: streams have ended whose access tokens do not count for them any more", "streams", ended)
		}
	}
	end()
	repeatEnding(ctx, end)
}

// endReason returns why what a caller has opened with a server ends: a request with its token would be refused. It returns "" for what goes on, also where nobody can say so at the moment.
func (rt *operations) endReason(ctx context.Context, server string, holder any) string {
	c, ok := holder.(*caller)
	if !ok || c.token == nil {
		return ""
	}
	refused := rt.bearer.Still(ctx, c.r)
	if s := rt.table.serviceByID(server); refused == nil && s != nil {
		refused, _ = s.access.requireScopes(c, s.srv.opts.Scopes)
	}
	if refused == nil {
		return ""
	}
	switch refused.Reason {
	case auth.ReasonExpired: // it ends as such
		return ""
	case auth.ReasonIssuer, auth.ReasonMalformed, auth.ReasonKeyUnknown, auth.ReasonInactive, auth.ReasonRevoked:
		return actors.TokenRevoked
	}
	return actors.TokenInsufficient
}

// endStored ends the sessions and tasks in the store that a revocation is about, on whichever node they are. Of the users of a client, and of issuers that this process does not know, only the tasks are found there.
func (rt *operations) endStored(ctx context.Context, r *revocation.Revocation) error {
	var errs []error
	tenants := rt.tenantsOf(r)
	for _, tenant := range tenants {
		found, err := rt.cluster.SessionsOf(ctx, tenant)
		errs = append(errs, err)
		for _, s := range found {
			if err := rt.endSession(ctx, &s); !errors.Is(err, store.ErrNotFound) {
				errs = append(errs, err)
			}
		}
	}
	for from, more := uint64(0), true; more; more = from != 0 {
		all, next, err := rt.tasks.All(ctx, from, adminLooks)
		errs, from = append(errs, err), next
		for _, t := range all {
			if t.Record.State == task.Ended {
				continue
			}
			theirs := slices.Contains(tenants, t.Key.Tenant)
			if !theirs && (r.Client != "" || r.Issuer == "") { // this process may know no issuer, or not the one of then
				maker, err := rt.tasks.Maker(ctx, t.Key)
				p := principalOf(maker)
				errs, theirs = append(errs, err), revocation.Match{*r}.Is(p.Issuer, p.Subject, p.Client)
			}
			if !theirs {
				continue
			}
			if _, err := rt.tasks.Cancel(ctx, t.Key); !errors.Is(err, worker.ErrUnknown) && !errors.Is(err, task.ErrEnded) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// Revocations returns the revocations in the store, for programs that end the access of their users by themselves. The command troupe revoke does so through the socket of the data directory.
func (rt *Runtime) Revocations() Revocations { return Revocations{rt.revoked} }

// Revocations say whose access tokens are refused by every process with Options.Auth that shares the store, though they are good. Its methods may be called from any goroutine.
type Revocations struct{ l *revocation.List }

// Revocation says whose tokens are refused: those of a subject or of a client, of which it has one.
type Revocation struct {
	// ID says whom the revocation is about: there is one at most for a subject or a client of an issuer.
	ID string
	// Subject is that of the tokens, of a user or a machine; or the id of an API key with the Issuer troupe:keys.
	Subject string
	// Client is the id of the OAuth client that got the tokens.
	Client string
	// Issuer is that of the tokens. Empty means any.
	Issuer string
	// Ban refuses all tokens, also those that are issued later, until the revocation is removed.
	Ban bool
	// Created is when it was made, or made last. Tokens that were issued before are refused, and so are those that do not say when they were issued.
	Created time.Time
	// Expires is when it ends: once no token counts that was issued before Created. It is the zero time for a ban.
	Expires time.Time
}

// Revoke refuses the tokens of want's Subject, or of its Client, that were issued before now, and with Ban all of them. It does so until want's Expires, and without that for 24 hours: the longest
// life of a token that is expected. What these principals hold ends: their event streams, sessions, calls and tasks, on every node within 2 seconds. To revoke somebody again
// replaces the revocation that there is, and refuses no less.
func (v Revocations) Revoke(ctx context.Context, want Revocation) (Revocation, error) {
	r, err := v.l.Revoke(ctx, revocation.Revocation(want))
	return Revocation(r), err
}

// RevokeKey is [APIKeys.Revoke], and returns the revocation of the key's principal. The key is named by its id, or by its name.
func (v Revocations) RevokeKey(ctx context.Context, key string) (Revocation, error) {
	r, err := v.l.RevokeKey(ctx, key)
	return Revocation(r), err
}

// List returns the revocations that there are, the oldest first.
func (v Revocations) List(ctx context.Context) ([]Revocation, error) {
	found, err := v.l.List(ctx)
	all := make([]Revocation, len(found))
	for i := range found {
		all[i] = Revocation(found[i])
	}
	return all, err
}

// Remove takes a revocation back. Tokens count again on every node within 2 seconds; what was ended stays so, and so does an API key.
func (v Revocations) Remove(ctx context.Context, id string) (Revocation, error) {
	r, err := v.l.Remove(ctx, id)
	return Revocation(r), err
}

// accessError is an error about a revocation or an API key as an operator is told of it.
func accessError(err error) error {
	switch {
	case errors.Is(err, revocation.ErrUnknown):
		return admin.ErrNoRevocation
	case errors.Is(err, revocation.ErrFull), errors.Is(err, revocation.ErrBad):
		return fmt.Errorf("%w: %w", admin.ErrRevocation, err)
	case errors.Is(err, apikey.ErrUnknown):
		return admin.ErrNoKey
	}
	for _, known := range []error{apikey.ErrAmbiguous, apikey.ErrTaken, apikey.ErrEnded, apikey.ErrFull, apikey.ErrBad} {
		if errors.Is(err, known) {
			return fmt.Errorf("%w: %w", admin.ErrKey, err)
		}
	}
	return err
}

// adminSessions are the sessions of all principals, for the operator.
type adminSessions struct{ rt *Runtime }

var _ admin.Sessions = adminSessions{}

// adminStreams is how many streams of a session are told of.
const adminStreams = 100

func (a adminSessions) Sessions(ctx context.Context, limit int, from uint64) (page admin.SessionPage, err error) {
	found, err := a.rt.cluster.Sessions(ctx, from, limit)
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

func (a adminSessions) Session(ctx context.Context, id string) (admin.Session, error) {
	s, err := a.findSession(ctx, id)
	if err != nil {
		return admin.Session{}, err
	}
	return a.describeSession(ctx, &s)
}

func (a adminSessions) EndSession(ctx context.Context, id string) (admin.Session, error) {
	s, err := a.findSession(ctx, id)
	if err != nil {
		return admin.Session{}, err
	}
	told, err := a.describeSession(ctx, &s)
	if err != nil {
		return admin.Session{}, err
	}
	switch err = a.rt.operations.endSession(ctx, &s); {
	case errors.Is(err, store.ErrNotFound):
		return admin.Session{}, admin.ErrNoSession
	case err != nil:
		return admin.Session{}, err
	}
	a.rt.log.Info("an operator has ended a session", "server", s.Server, "session", s.ID)
	return told, nil
}

// endSession ends a session in the store. store.ErrNotFound: it has ended.
func (rt *operations) endSession(ctx context.Context, s *cluster.StoredSession) error {
	var svc *actors.Service
	if here := rt.table.serviceByID(s.Server); here != nil {
		svc = here.svc
	}
	return rt.node.EndSession(ctx, svc, actors.SessionKey{Tenant: s.Tenant, Server: s.Server, ID: s.ID})
}

// endTasks ends those of the tasks that were made a moment ago whose makers' tokens are refused.
func (rt *operations) endTasks(ctx context.Context) {
	for _, key := range rt.recent.Refused(rt.revoked) {
		rt.endTask(ctx, key)
	}
}

// findSession reads a session by its id, or by the tag of it that logs and lists have.
func (a adminSessions) findSession(ctx context.Context, id string) (cluster.StoredSession, error) {
	tag := "#" + strings.TrimPrefix(id, "#")
	if masked := telemetry.Masked(id); masked != id {
		tag = masked
	}
	s, err := a.rt.cluster.FindSession(ctx, func(id string) bool { return telemetry.Hash(id) == tag })
	if errors.Is(err, store.ErrNotFound) {
		err = admin.ErrNoSession
	}
	return s, err
}

// describeSession is what is told of a session. A record that this release cannot read has no more than its key.
func (a adminSessions) describeSession(ctx context.Context, s *cluster.StoredSession) (admin.Session, error) {
	out := admin.Session{ID: telemetry.Hash(s.ID), Server: s.Server, Tenant: s.Tenant, Streams: []admin.Stream{}}
	if here := a.rt.table.serviceByID(s.Server); here != nil {
		out.Server = here.path
	}
	rec, ok := actors.DecodeSession(s.Data)
	if ok {
		out.Revision, out.Client, out.Subscribed = rec.Revision, clientName(rec.Client), len(rec.Subscribed)
		out.Created, out.Used, out.Expires = rec.Created.Round(time.Millisecond), rec.Written.Round(time.Millisecond), rec.Expires.Round(time.Millisecond)
	}
	streams, all, err := a.rt.cluster.Streams(ctx, s.Tenant+"."+s.Server+"."+s.ID, adminStreams)
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

// adminTasks are the tasks of all principals, for the operator.
type adminTasks struct{ rt *Runtime }

const (
	// adminLooks is how many tasks are looked at for a page.
	adminLooks = 2000
	// adminSteps is how many steps of a task are told of.
	adminSteps = 500
)

func (a adminTasks) List(ctx context.Context, q admin.Query) (page admin.Page, err error) {
	page.Tasks, page.Next = []admin.Task{}, q.From
	for looked := 0; looked < adminLooks && len(page.Tasks) < q.Limit; {
		n := q.Limit - len(page.Tasks)
		all, next, err := a.rt.tasks.All(ctx, page.Next, n)
		if err != nil {
			return admin.Page{}, err
		}
		for _, t := range all {
			if told := a.describeTask(t); admin.Matches(told.State, q.State) {
				page.Tasks = append(page.Tasks, told)
			}
		}
		looked += n
		if page.Next = next; next == 0 {
			break
		}
	}
	return page, nil
}

// describeTask is what is told of a task.
func (a adminTasks) describeTask(t worker.Snapshot) admin.Task {
	r := &t.Record
	out := admin.Task{
		ID: t.Key.ID, State: r.State.String(), Tool: r.Name, Server: t.Key.Server, Tenant: t.Key.Tenant, Principal: r.Who, Address: r.From,
		Node: r.Node, Attempt: r.Attempt, Message: r.Message, Created: time.UnixMilli(r.Created), Updated: time.UnixMilli(r.Updated), Expires: r.Expires(),
	}
	if r.State == task.Ended && r.Outcome != nil {
		out.State = r.Outcome.Kind.String()
	}
	if here := a.rt.table.serviceByID(t.Key.Server); here != nil {
		out.Server = here.path
	}
	return out
}

// findTask reads a task by its id.
func (a adminTasks) findTask(ctx context.Context, id string) (t worker.Snapshot, err error) {
	key, err := a.rt.tasks.Find(ctx, id)
	if err == nil {
		t, err = a.rt.tasks.Get(ctx, key)
	}
	if errors.Is(err, worker.ErrUnknown) {
		err = admin.ErrUnknown
	}
	return t, err
}

func (a adminTasks) Show(ctx context.Context, id string, result bool) (admin.Detail, error) {
	t, err := a.findTask(ctx, id)
	if err != nil {
		return admin.Detail{}, err
	}
	r := &t.Record
	d := admin.Detail{Task: a.describeTask(t), Lost: r.Lost, AllRuns: int(r.Epoch), Asked: len(r.Questions), Runs: []admin.Run{}, Steps: []admin.Step{}, Questions: []admin.Question{}}
	for _, run := range r.Runs {
		told := admin.Run{Number: run.Epoch, Attempt: run.Attempt, Node: run.Node, Began: time.UnixMilli(run.Began), How: string(run.End)}
		if run.End != "" {
			told.Ended = time.UnixMilli(run.Over)
		}
		d.Runs = append(d.Runs, told)
	}
	for _, q := range r.Open() {
		var asked mcp.InputRequest
		_ = codec.Unmarshal(q.Request, &asked) // the rest of the task may be read all the same
		told := admin.Question{Key: q.Key, Method: asked.Method}
		if result {
			told.Params = json.RawMessage(asked.Params)
		}
		d.Questions = append(d.Questions, told)
	}
	if result && r.Outcome != nil {
		d.Result = r.Outcome.Value
	}
	steps, all, err := a.rt.tasks.Steps(ctx, t.Key, adminSteps)
	d.AllSteps = all
	for _, s := range steps {
		d.Steps = append(d.Steps, admin.Step{Name: s.Name, Attempt: s.Attempt, Began: time.UnixMilli(s.Began), TookMS: s.Took, Bytes: s.Size, Failed: s.Failed != ""})
	}
	return d, err
}

func (a adminTasks) Cancel(ctx context.Context, id string) (admin.Task, error) {
	key, err := a.rt.tasks.Find(ctx, id)
	var t worker.Snapshot
	if err == nil {
		t, err = a.rt.tasks.Cancel(ctx, key)
	}
	switch {
	case errors.Is(err, worker.ErrUnknown):
		return admin.Task{}, admin.ErrUnknown
	case errors.Is(err, task.ErrEnded):
		return admin.Task{}, fmt.Errorf("%w: it is %s", admin.ErrEnded, a.describeTask(t).State)
	case err != nil:
		return admin.Task{}, err
	}
	a.rt.log.Info("an operator has cancelled a task", "server", key.Server, "task", telemetry.Hash(id))
	return a.describeTask(t), nil
}

var _ admin.Tasks = adminTasks{}
