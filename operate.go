package troupe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/internal/admin"
	"github.com/troupe-run/troupe/internal/apikey"
	"github.com/troupe-run/troupe/internal/hosting"
	"github.com/troupe-run/troupe/internal/nodestore"
	"github.com/troupe-run/troupe/internal/operated"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/revocation"
	"github.com/troupe-run/troupe/internal/worker"
	"github.com/troupe-run/troupe/operator"
)

// operations are what an operator does to a Runtime: looks at it, and ends what revoked principals hold.
type operations struct {
	*Runtime
	process operated.Process
}

// startProcess says what an operator looks at. The node, the store and the tasks are there.
func (rt *operations) startProcess() {
	rt.process = operated.Process{Store: rt.cluster, Node: rt.node, Pool: rt.tasks, Log: rt.log, Leaving: rt.leaving.Load, Dismiss: rt.drainer.dismissServe, Tenants: rt.tenantsNamed, Names: namesOf, Served: func(id string) (*actors.Service, string) {
		if here := rt.table.serviceByID(id); here != nil {
			return here.svc, here.path
		}
		return nil, ""
	}}
}

// endings end what sessions, calls and tasks there are.
func (rt *operations) endings() operated.Endings { return operated.Endings{Process: &rt.process} }

// openAdmin serves the socket of the data directory, if there is one, by which the command troupe looks at this process. The returned
// function ends that.
func (rt *operations) openAdmin() (shut func()) {
	if rt.opts.Dir == "" || rt.opts.Store.NoSocket {
		return func() {}
	}
	srv, err := admin.Listen(rt.opts.Dir, admin.Operated{Operator: &rt.process, Keys: apikey.NewOperated(rt.APIKeys(), accessError), Revoked: revocation.NewOperated(rt.revoked, accessError, revocation.About{Issuers: rt.revocableIssuers, Held: rt.heldBy}), Backends: hosting.NewOperated(rt.backends)})
	if err != nil {
		rt.log.Warn("troupe calls, tasks, sessions, keys, revoke, backends, nodes and drain cannot reach this process", "error", err)
		return func() {}
	}
	return func() {
		if err := srv.Close(); err != nil {
			rt.log.Warn("the socket of operators was not removed", "error", err)
		}
	}
}

// Operator returns what an operator sees of this node and its store, and does to them: sessions, calls in flight, tasks and nodes, with what ends them. It is for programs with a console
// of their own: whoever reaches it sees and ends what any client has. The command troupe uses the same through the socket of the data directory.
func (rt *Runtime) Operator() operator.Operator { return &rt.operations.process }

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

// knownIssuers are those of which this process knows principals.
func (rt *operations) knownIssuers() []string {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return append([]string{auth.KeyIssuer}, rt.issuers...)
}

// revocableIssuers are the issuers that an operator may mean, nil where the program decides whose principals there are.
func (rt *operations) revocableIssuers() []string {
	if rt.opts.Auth == nil {
		return nil
	}
	return rt.knownIssuers()
}

// heldBy counts what those have whom a revocation is about.
func (rt *operations) heldBy(ctx context.Context, r revocation.Revocation) (operator.Ended, error) {
	return rt.endings().CountHeld(ctx, rt.tenantsOf(&r), func(holder any) bool {
		p := principalOf(holder)
		return revocation.Match{r}.IsAbout(p.Issuer, p.Subject, p.Client)
	})
}

// tenantsNamed are the tenants of a principal as an operator names it: its tenant, "SUBJECT of ISSUER", or a subject, which is a user and a machine at each issuer that is known. It returns none
// where nobody can be meant.
func (rt *operations) tenantsNamed(name string) (tenants []string) {
	switch {
	case name == anonymous:
		return []string{name}
	case strings.TrimSpace(name) == "", strings.HasPrefix(name, nameOf): // a script whose variables are empty
		return nil
	case len(name) == tenantLength && strings.Trim(name, tenantAlphabet) == "": // or the id of an API key
		tenants = append(tenants, name)
	}
	for _, issuer := range append(rt.knownIssuers(), "") {
		tenants = append(tenants, tenantsAt(issuer, name)...)
	}
	for at := 0; ; at += len(nameOf) { // a subject may have the word, too
		next := strings.Index(name[at:], nameOf)
		if next < 0 {
			return tenants
		}
		at += next
		tenants = append(tenants, tenantsAt(name[at+len(nameOf):], name[:at])...)
	}
}

// tenantsAt are the tenants of a subject at an issuer: it is a machine and a user.
func tenantsAt(issuer, subject string) []string {
	machine, user := Principal{Issuer: issuer, Subject: subject, Machine: true}, Principal{Issuer: issuer, Subject: subject}
	return []string{machine.tenantHash(), user.tenantHash()}
}

// nameOf stands between subject and issuer: see [Principal.String].
const nameOf = " of "

// namesOf are the names by which an operator may mean a principal, and what it reads of it.
func namesOf(principal any) (subject, full, shown string) {
	p := principalOf(principal)
	full = p.String()
	return p.Subject, full, protocol.Shown(full)
}

// tenantsOf are the tenants of a revocation: a subject is a user and a machine at each issuer, and a client is a machine. Nothing in a tenant says by which client its user came.
func (rt *operations) tenantsOf(r *revocation.Revocation) (tenants []string) {
	issuers := []string{r.Issuer}
	if r.Issuer == "" {
		issuers = rt.knownIssuers()
	}
	for _, issuer := range issuers {
		all := tenantsAt(issuer, cmp.Or(r.Subject, r.Client))
		if r.Subject == "" {
			all = all[:1] // a client is a machine
		}
		tenants = append(tenants, all...)
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
		return m.IsAbout(p.Issuer, p.Subject, p.Client)
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
	refused := rt.bearer.RecheckToken(ctx, c.r)
	if s := rt.table.serviceByID(server); refused == nil && s != nil {
		refused, _ = s.scopes.requireScopes(c, s.srv.opts.Scopes)
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
		errs = append(errs, rt.endings().EndSessionsOf(ctx, tenant))
	}
	_, err := rt.endings().EndTasks(ctx, func(t *worker.Snapshot) (bool, error) {
		if slices.Contains(tenants, t.Key.Tenant) {
			return true, nil
		}
		if r.Client == "" && r.Issuer != "" {
			return false, nil
		}
		maker, err := rt.tasks.Maker(ctx, t.Key) // this process may know no issuer, or not the one of then
		p := principalOf(maker)
		return revocation.Match{*r}.IsAbout(p.Issuer, p.Subject, p.Client), err
	})
	errs = append(errs, err)
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

// endTasks ends those of the tasks that were made a moment ago whose makers' tokens are refused.
func (rt *operations) endTasks(ctx context.Context) {
	for _, key := range rt.recent.RefusedBy(rt.revoked) {
		rt.endTask(ctx, key)
	}
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
