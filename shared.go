package troupe

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/cluster"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/bearer"
	"github.com/troupe-run/troupe/internal/hosting"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/observe"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/revocation"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/task"
	"github.com/troupe-run/troupe/internal/tasknews"
	"github.com/troupe-run/troupe/internal/telemetry"
	"github.com/troupe-run/troupe/internal/worker"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/transport"
)

// shared is what the mounted servers of a Runtime have of it: its log, its store, its node, and what its Options say to each of them.
type shared struct {
	log  *slog.Logger
	hits *limits.Log
	tel  *telemetry.Instruments
	// requests logs requests, nil for none; pseudonyms says that spans have those of principals.
	requests   *telemetry.Requests
	pseudonyms bool
	cluster    *cluster.Node
	keys       store.Keys
	node       *actors.Node
	tasks      *worker.Pool
	bearer     *bearer.Checker // nil without Options.Auth
	revoked    *revocation.List
	recent     revocation.Recent[worker.Key]

	// reminders put the questions of tasks to clients that do not ask for them.
	reminders tasknews.Reminders
	taskNews  tasknews.Teller
	leaving   atomic.Bool // it drains: clients must take other connections

	sharesStore    bool // other processes may have the same store
	storesInMemory bool // the store is in this process's memory, and so ends with it
	knowsCallers   bool // somebody says who makes a request
	takesAnybody   bool // or it may be that nobody does
	backends       *hosting.Node
	learnWait      time.Duration          // Options.Hosting.LearnWait
	learnAtStart   bool                   // Options.Hosting.LearnAtStart
	crowd          bool                   // those of whom nobody says who they are may be several, wherever they come from
	taskMax        time.Duration          // Options.Store.TaskMax
	redact         func(*LogMessage) bool // Options.Redact
}

// newObserver returns what observes a server.
func (h *shared) newObserver() observe.Observer {
	o := observe.Observer{Tel: h.tel, Requests: h.requests, Name: func(principal any) string { return principalOf(principal).String() }}
	if h.pseudonyms {
		o.User = h.pseudonymOf
	}
	return o
}

// pseudonymOf stands for a principal on spans, the same on all nodes of a store; "" for nobody.
func (h *shared) pseudonymOf(principal any) string {
	who := principalOf(principal)
	key := who.tenantHash()
	if key == anonymous {
		return ""
	}
	return hex.EncodeToString(h.keys.Tag([]byte(key)))[:16]
}

// sealText makes an opaque string of plain. openSealed turns it back into plain for the same aad,
// on any node. When openSealed fails with store.ErrUnavailable, the string may still be good.
func (h *shared) sealText(plain string, aad []byte) (string, error) {
	b, err := h.keys.Seal([]byte(plain), aad)
	return base64.RawURLEncoding.EncodeToString(b), err
}

func (h *shared) openSealed(sealed string, aad []byte) (string, error) {
	// The decoder would skip line breaks.
	b, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	if err != nil || strings.ContainsAny(sealed, "\r\n") {
		return "", store.ErrSealed
	}
	plain, err := h.keys.Open(b, aad)
	return string(plain), err
}

// logTask logs what happened to a task, at debug: a busy server has thousands of these lines in a second. The tenant stands for the
// principal, or for all anonymous clients.
func (h *shared) logTask(what string, key worker.Key, name, value string) {
	if h.log.Enabled(context.Background(), slog.LevelDebug) {
		h.log.Debug(what, "server", key.Server, "tenant", key.Tenant, "task", key.Digest(), name, value)
	}
}

// noteTask notes that a call of a principal has made a task. A task of a revoked principal is cancelled, as the call may have ended with what its
// caller held.
func (h *shared) noteTask(ctx context.Context, principal any, key worker.Key) {
	c, ok := principal.(*caller)
	if !ok || c.token == nil {
		return
	}
	h.recent.Add(key, c.token)
	if h.revoked.Refusal(c.token) != nil {
		h.endTask(context.WithoutCancel(ctx), key)
	}
}

// endTask cancels the task of a revoked principal.
func (h *shared) endTask(ctx context.Context, key worker.Key) {
	if _, err := h.tasks.Cancel(ctx, key); err != nil && !errors.Is(err, worker.ErrUnknown) && !errors.Is(err, task.ErrEnded) {
		h.log.Warn("the task of a revoked principal has not ended", "task", key.Digest(), "error", err)
	}
}

// taskLedger counts what tasks store on the accounts of a node.
type taskLedger struct{ node *actors.Node }

var _ worker.Ledger = taskLedger{}

// Charge implements worker.Ledger; the error is a *refusal.Refusal. In a store that is nearly full the steps of tasks go on, as long as there is room at all.
func (l taskLedger) Charge(c worker.Charge, p worker.Purpose) error {
	full := actors.TasksOf(l.node).Charge(actors.TaskCharge(c), p == worker.ForResult)
	if p == worker.ForStep && full == limits.MaxStore.Row {
		full = actors.TasksOf(l.node).Charge(actors.TaskCharge(c), true)
	}
	if full != nil {
		return refusal.Of(full)
	}
	return nil
}

// Settle implements worker.Ledger.
func (l taskLedger) Settle(c worker.Charge, stored bool) {
	actors.TasksOf(l.node).Settle(actors.TaskCharge(c), stored)
}

// Return implements worker.Ledger.
func (l taskLedger) Return(c worker.Charge) { actors.TasksOf(l.node).Return(actors.TaskCharge(c)) }

// observer counts what the transport refuses and cuts, and logs the limits that were hit.
type observer struct {
	tel  *telemetry.Instruments
	hits *limits.Log
}

var _ transport.Observer = observer{}

func (h *shared) observer() observer { return observer{h.tel, h.hits} }

// Rejected counts a request that did not reach the dispatcher.
func (o observer) Rejected(status int, reason string) {
	o.tel.Rejected(status, reason)
	o.hits.Hit(limits.RowOf(limits.HTTP, reason))
}

// Cut counts a stream that did not end by itself.
func (o observer) Cut(reason string) {
	o.tel.Cut(reason)
	o.hits.Hit(cmp.Or(limits.RowOf(limits.Cuts, reason), limits.RowOf(limits.HTTP, reason))) // memory refuses and cuts
}

// revokedMeanwhile refuses the message of a caller who was revoked since it was let in. It reports whether it did.
func (h *shared) revokedMeanwhile(x *transport.Exchange) bool {
	c, ok := x.Principal.(*caller)
	if !ok || c.token == nil {
		return false
	}
	refused := h.bearer.RefuseRevoked(c.r, c.token)
	if refused == nil {
		return false
	}
	var id []byte
	if x.Msg.Kind == codec.Request {
		id = x.Msg.ID
	}
	refused = refused.For(id)
	refused.Code = mcp.CodeInvalidRequest
	x.Reject(refused)
	return true
}
