package transport

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/transport/server"
)

// Guard bounds and counts the requests that no Handler bounds and counts: those for paths that are not a Handler's, and those that
// another handler sees first. Make it with NewGuard. Its methods may be called from any goroutine.
type Guard struct{ h *Handler }

// NewGuard returns a Guard with the checks, the times and the accounts of a Handler with the options o.
func NewGuard(o Options) *Guard { return &Guard{NewHandler(nil, o)} }

// Refuse answers r if its Host or its Origin is not allowed, and reports whether it did.
func (g *Guard) Refuse(w http.ResponseWriter, r *http.Request) bool {
	refused := g.h.o.admitNames(r)
	if refused != nil {
		g.h.refuseRequest(w, streamable, refused, plainOf(r))
	}
	return refused != nil
}

// RefuseHost is Refuse for what pages of any origin may read.
func (g *Guard) RefuseHost(w http.ResponseWriter, r *http.Request) bool {
	if g.h.o.hostAllowed(r.Host, sideOf(r)) {
		return false
	}
	g.h.refuseRequest(w, streamable, refusal.Host, plainOf(r))
	return true
}

// RespondPublic is Respond for what caches may keep for an age, and give to other clients.
func (g *Guard) RespondPublic(w http.ResponseWriter, r *http.Request, status int, body []byte, age time.Duration) {
	w.Header().Set("Cache-Control", "public, max-age="+wholeSeconds(age))
	g.h.writeResponse(w, status, body, plainOf(r))
}

// Respond answers r with a whole body. It bounds the time that the client has to read it, and to send a body that nobody wants.
func (g *Guard) Respond(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	g.h.respondUncached(w, status, body, plainOf(r))
}

// Serve has next serve r, which counts as held memory of its address meanwhile. It bounds how long the body of r may take, and how
// long the client may leave unread what next writes over HTTP/2; over HTTP/1.1 that is up to the listener, see
// [Listener.LimitWrites]. A Handler that next calls takes all of this over. If there is no room, Serve refuses r. It
// refuses no probe of HTTP/1.1, which has a connection to itself, and over HTTP/2 one only if the address holds something else: a balancer
// takes the process for ill, which may only be busy, and all its clients may have the balancer's address.
func (g *Guard) Serve(w http.ResponseWriter, r *http.Request, next http.Handler, probe bool) {
	p := &passage{ReadCloser: r.Body, h: g.h, w: w, conn: server.RequestConn(r), waits: r.ContentLength != 0}
	if p.ReadCloser == nil {
		p.ReadCloser = http.NoBody
	}
	p.conn.BeginHandler()
	if refused := p.chargeRequest(r, probe); refused != nil {
		defer p.conn.EndHandler()
		g.h.refuseRequest(w, streamable, memoryRefusal(refused, r), plainOf(r))
		return
	}
	defer p.endRequest()
	seen := r.WithContext(context.WithValue(r.Context(), passageKey{}, p))
	seen.Body = p
	if r.ProtoMajor != 2 {
		if p.waits {
			w = awaitingOf(w, p)
		}
		next.ServeHTTP(w, seen)
		return
	}
	// The server would write the end of the response after the return, without a bound and uncounted; over HTTP/1.1 the request has a
	// connection to itself, and there a flush would change the response.
	b := bounded{w, g.h}
	next.ServeHTTP(b, seen)
	if !p.isOver() {
		b.Flush()
	}
}

// passage is a request on its way through a Guard. It is the body of that request, and in its context: what another handler puts around
// the body hides it from no Handler.
type passage struct {
	io.ReadCloser
	h       *Handler
	w       http.ResponseWriter
	conn    *server.Conn
	account *quota.Account // nil if nothing is counted
	counted string         // the address that account is of

	mu    sync.Mutex // guards the fields below
	over  bool       // a Handler has taken the request over, or it was served
	waits bool       // a part of the body is still to come
	begun bool       // somebody has waited for it
	now   int        // how many wait for it now
	watch watched    // for the body
}

// passageKey has the passage of a request in its context.
type passageKey struct{}

// passageOf returns the passage of r, or nil if it has come through no Guard.
func passageOf(r *http.Request) *passage {
	p, _ := r.Context().Value(passageKey{}).(*passage)
	return p
}

// chargeRequest counts the request on the account of its address.
func (p *passage) chargeRequest(r *http.Request, probe bool) (refused *refusal.Refusal) {
	o := &p.h.o
	if o.Account == nil {
		return nil
	}
	p.counted = r.RemoteAddr
	if resumes(r) || probe && r.ProtoMajor == 1 {
		p.account = o.chargeAccountAnyway(nil, nil, r.RemoteAddr, quota.Bodies, requestBytes)
		return nil
	}
	if p.account, refused = o.chargeAccount(nil, nil, r.RemoteAddr, quota.Bodies, requestBytes); refused != nil && probe && p.account.Bytes() == 0 {
		p.account = o.chargeAccountAnyway(p.account, nil, r.RemoteAddr, quota.Bodies, requestBytes)
		return nil
	}
	return refused
}

// Read reads the body.
func (p *passage) Read(b []byte) (n int, err error) {
	if !p.awaitBody() { // a Handler does the rest
		return p.ReadCloser.Read(b)
	}
	defer func() { p.noteRead(n, err) }()
	p.conn.EndHandler() // it is up to the client
	defer p.conn.BeginHandler()
	return p.ReadCloser.Read(b)
}

// awaitBody notes that somebody waits for the body. Only meanwhile does its time pass: at any other time the client may have sent all of it.
// awaitBody returns false if that is up to a Handler; otherwise noteRead follows.
func (p *passage) awaitBody() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return false
	}
	switch p.now++; {
	case p.begun:
		p.h.reads.resumeWatch(&p.watch)
	case p.waits:
		p.begun = true
		p.h.reads.beginWatch(&p.watch, p.w)
	}
	return true
}

// noteRead notes what has come of the body.
func (p *passage) noteRead(n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watch.got.Add(int64(n))
	if p.now--; err != nil {
		p.waits = p.waits && err != io.EOF && !errors.Is(err, os.ErrDeadlineExceeded) // or its time is over
		p.h.reads.endWatch(&p.watch)
	} else if p.now == 0 {
		p.h.reads.pauseWatch(&p.watch)
	}
}

func (p *passage) isOver() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.over
}

// endWatch ends what the Guard does for the request, and reports whether it did it until now.
func (p *passage) endWatch() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return false
	}
	p.over = true
	p.conn.EndHandler()
	p.h.reads.endWatch(&p.watch)
	return true
}

// handOver has x count the request, and bound it. It fails if the request was handed over before, or has been served.
func (p *passage) handOver(x *Exchange) bool {
	if !p.endWatch() {
		return false
	}
	if p.account != nil {
		x.charges.account, x.charges.addressed, x.charges.bodyCharged = p.account, p.counted == x.remote, requestBytes
	}
	return true
}

// endRequest ends the request, unless a Handler has it. The server may still read the rest of a small body.
func (p *passage) endRequest() {
	if !p.endWatch() {
		return
	}
	if p.account != nil {
		p.h.o.Accounts.Refund(p.account, quota.Bodies, requestBytes)
	}
	if p.waits {
		p.h.endBody(p.w)
	}
}

// awaiting is a response over HTTP/1.1 to a request with a body. The server reads the rest of the body before it sends the header: with
// any write.
type awaiting struct {
	http.ResponseWriter
	p *passage
}

func awaitingOf(w http.ResponseWriter, p *passage) http.ResponseWriter {
	a := awaiting{w, p}
	if canHijack(w) {
		return takeable{a}
	}
	return a
}

// Unwrap is for http.ResponseController.
func (a awaiting) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Write implements http.ResponseWriter.
func (a awaiting) Write(p []byte) (int, error) {
	if a.p.awaitBody() {
		defer a.p.noteRead(0, nil)
	}
	return a.ResponseWriter.Write(p)
}

// FlushError is Flush, for http.ResponseController.
func (a awaiting) FlushError() error {
	if a.p.awaitBody() {
		defer a.p.noteRead(0, nil)
	}
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// Flush implements http.Flusher.
func (a awaiting) Flush() { _ = a.FlushError() }

// takeable is awaiting where the connection can be taken over.
type takeable struct{ awaiting }

// Hijack implements http.Hijacker.
func (a takeable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(a.ResponseWriter).Hijack()
}

// bounded is a response over HTTP/2, whose client may give it no window: each write has WriteTimeout.
type bounded struct {
	http.ResponseWriter
	h *Handler
}

// Unwrap is for http.ResponseController.
func (b bounded) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// Write implements http.ResponseWriter.
func (b bounded) Write(p []byte) (int, error) {
	var watch watched
	b.h.writes.beginWatch(&watch, b.ResponseWriter)
	defer b.h.writes.endWatch(&watch)
	return b.ResponseWriter.Write(p)
}

// FlushError is Flush, for http.ResponseController.
func (b bounded) FlushError() error {
	var watch watched
	b.h.writes.beginWatch(&watch, b.ResponseWriter)
	defer b.h.writes.endWatch(&watch)
	return http.NewResponseController(b.ResponseWriter).Flush()
}

// Flush implements http.Flusher.
func (b bounded) Flush() { _ = b.FlushError() }
