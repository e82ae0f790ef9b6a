package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/backend/journal"
	"github.com/troupe-run/troupe/internal/backend/pool"
	"github.com/troupe-run/troupe/internal/keeper"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/upstream"
	"github.com/troupe-run/troupe/mcp"
)

// endWait bounds the end of an instance: how long it may take to be told that its session ends, or to have its last words stored.
const endWait = 5 * time.Second

// A lifetime opens an instance, and ends it.
type lifetime struct{ *instance }

// openAndRun opens an instance and tells the pool. What is left of its life goes on beside.
func (in lifetime) openAndRun() {
	left, err := in.openOrInherit()
	left.offer(in.b)
	close(in.ready)
	if err != nil {
		close(in.lists)
		in.endInstance(err, false)
		return
	}
	if in.heir {
		in.log(slog.LevelInfo, "the session at a backend that an earlier process, or another node, has left goes on")
	} else {
		in.log(slog.LevelInfo, "an instance of a backend has started", "took", in.b.c.Clock.Now().Sub(in.began).String())
	}
	in.b.tellPool(&isReady{in.instance})
	estate(in).resumeLeft(&left)
	in.b.lives.Go(func() { in.runUntilEnd(!in.heir) }) // with a stack that is not as deep as that of a start
}

// runUntilEnd goes on with an instance that is open, until it ends or is ended. fresh says that this process has begun it.
func (in lifetime) runUntilEnd(fresh bool) {
	ctx, cancel := context.WithCancel(in.life)
	defer cancel()
	if in.isModern() {
		heard := in.followed.expectFilter()
		in.b.lives.Go(func() { hearing(in).listen(ctx) })
		awaitSignal(in.b.c.Clock, heard.over, firstAckWait)
	}
	lister(in).listAll(fresh)
	close(in.lists)
	looks := quota.NewBucket(relistRate)
	for err := error(nil); err == nil; {
		select {
		case <-in.wake: // at once: a list may soon be another one again
			for wait := looks.Take(in.b.c.Clock.Now()); wait > 0 && in.pause(wait); {
				wait = looks.Take(in.b.c.Clock.Now())
			}
			if in.life.Err() == nil {
				lister(in).listStale(false)
			}
		case err = <-in.over:
		case <-in.life.Done():
			err = context.Cause(in.life)
		}
		if err != nil {
			in.endInstance(err, true)
		}
	}
}

// relistRate is how often the lists of an instance are asked for at most, whatever it says.
var relistRate = quota.Rate{PerSecond: 1, Burst: 8}

// endInstance ends the instance, notes how it ended, and tells the pool.
func (in lifetime) endInstance(why error, began bool) {
	in.Stop()
	if began && in.life.Err() == nil {
		in.b.tellPool(&hasBroken{in.instance, why})
	}
	reason, process := pool.Reason(reasonOf(why)), in.proc.Load()
	if reason == pool.Kept && process != nil {
		in.b.kept.Add(1)
	}
	in.parted = in.endOrLeave(why)
	in.logEnd(why, process, began)
	in.noteEnd(why, process, began)
	switch {
	case began:
		in.b.tellPool(&hasEnded{in.instance, in.parted.status, reason})
	case reason == pool.Exited:
		in.b.tellPool(&didNotStart{in.instance, in.parted.words, pool.FailedTo})
	default:
		in.b.tellPool(&didNotStart{in.instance, in.parted.words, reason})
	}
	close(in.gone)
}

// logEnd logs that the instance has ended: as a warning if nobody has ended it, or others may miss it.
func (in lifetime) logEnd(why error, process *keeper.Process, began bool) {
	reason := pool.Reason(reasonOf(why))
	level, text := slog.LevelInfo, "an instance of a backend was ended"
	switch {
	case reason == pool.Kept:
		text = "an instance of a backend is left to the next process"
	case reason == pool.Moved && in.place.stores.Load() != nil:
		text = "an instance of a backend is left to another node"
	case reason == pool.Evicted && in.served.Load():
		level, text = slog.LevelWarn, "an instance of a backend was ended that others may still need, as there is no room for one more: max, or max-instances, is too low for what is called"
	case reason == pool.Exited && began:
		level, text = slog.LevelWarn, "an instance of a backend has ended by itself"
	case reason == pool.Exited:
		level, text = slog.LevelWarn, "an instance of a backend has not started"
	}
	attrs := []any{"reason", string(reason), "after", in.b.c.Clock.Now().Sub(in.began).String()}
	if words := in.parted.words; words != "" {
		attrs = append(attrs, "status", words)
	}
	if cause := in.causeOf(why); cause != "" {
		attrs = append(attrs, "cause", cause)
	}
	in.logOf(process, level, text, attrs...)
}

// causeOf is what the machine has to do with the end of the instance, which no client is told; "" where that is nothing.
func (in lifetime) causeOf(why error) string {
	f, ok := errors.AsType[*upstream.Failure](why)
	if !ok || f.Err == nil {
		return ""
	}
	cause := f.Err
	if of, ok := errors.AsType[*url.Error](cause); ok { // which begins with the whole URL
		cause = of.Err
	}
	return in.of.mask(cause.Error())
}

// failures say of the reasons why an instance ends which are faults of the backend.
var failures = map[pool.Reason]string{
	pool.Exited:  "it ended by itself",
	pool.TooSlow: refusals[pool.TooSlow],
	pool.Heavy:   "it held more than max-memory",
	pool.Wedged:  "it answered no ping",
	pool.Suspect: "it did not end a call that its client had cancelled",
}

// noteEnd notes for operators how the instance has ended.
func (in lifetime) noteEnd(why error, process *keeper.Process, began bool) {
	reason := pool.Reason(reasonOf(why))
	if reason == pool.Kept {
		return
	}
	now := in.b.c.Clock.Now()
	e := journal.End{At: now, Reason: string(reason), Lived: now.Sub(in.began), Status: joinTexts(in.parted.words, in.causeOf(why)), Failed: failures[reason]}
	if process != nil {
		e.PID = process.PID()
	}
	if reason == pool.Exited && !began {
		e.Failed = refusals[pool.FailedTo]
	}
	in.b.journals.AddEnd(in.of.Name, e)
}

// log logs what becomes of the instance, and notes it in the journal of its backend.
func (in lifetime) log(level slog.Level, text string, attrs ...any) {
	in.logOf(in.proc.Load(), level, text, attrs...)
}

func (in lifetime) logOf(process *keeper.Process, level slog.Level, text string, attrs ...any) {
	all := []any{"backend", in.of.Name}
	line := journal.Line{At: in.b.c.Clock.Now(), Text: text}
	for i := 0; i+1 < len(attrs); i += 2 {
		line.Text += fmt.Sprintf(", %v: %v", attrs[i], attrs[i+1])
	}
	if process != nil {
		all = append(all, "process", process.PID())
		line.Of = new(journal.Process)
		line.Of.Started(process.PID())
	}
	in.b.journals.Add(in.of.Name, line)
	in.b.c.Log.Log(context.WithoutCancel(in.life), level, text, append(all, attrs...)...)
}

// pause waits, and reports whether the instance is still to live.
func (in lifetime) pause(d time.Duration) bool { return !awaitSignal(in.b.c.Clock, in.life.Done(), d) }

// openOrInherit starts what the instance is, and agrees with it on a revision, or goes on with what an earlier process has left.
func (in lifetime) openOrInherit() (left remains, err error) {
	ctx, cancel := in.life, context.CancelFunc(func() {})
	if most := in.of.Options.Pool.StartTimeout; most > 0 {
		ctx, cancel = context.WithTimeout(ctx, most)
	}
	defer cancel()
	address, isURL := in.of.Target.URL()
	left, ok, err := in.inheritSession(ctx, address)
	if ok || err != nil {
		if err != nil && in.life.Err() != nil {
			err = context.Cause(in.life)
		}
		return left, err
	}
	o := in.connOptions()
	var conn *upstream.Conn
	switch {
	case !isURL:
		conn, err = in.openLines(ctx, o)
	case in.of.Options.Transport == host.SSE:
		conn, err = upstream.Open(ctx, upstream.NewSSE(in.httpOptions(address)), o)
	case in.of.Options.Transport == host.HTTP:
		conn, err = upstream.Open(ctx, upstream.NewHTTP(in.httpOptions(address)), o)
	default:
		conn, err = upstream.OpenURL(ctx, in.httpOptions(address), o)
	}
	if err != nil {
		return left, err
	}
	in.conn = conn
	if in.lost {
		in.tellLost()
	}
	estate(in).settlePlace(ctx)
	restoreSubscriptions(ctx, in.instance)
	estate(in).leaveStanding()
	return left, nil
}

// connOptions say how the instance is spoken to.
func (in lifetime) connOptions() upstream.Options {
	want, capabilities := parseClient(in.kind)
	o := upstream.Options{
		ClientInfo: in.b.c.Info, Capabilities: capabilities, Want: want, Standalone: true, Clock: in.b.c.Clock,
		Event: func(e upstream.Event) {
			estate(in).keepQuestion(&e, "")
			if in.Post(&heard{e}) != nil {
				unheard := in.eventOf(e)
				unheard.refuseUnheard()
			}
		},
		Passed: func(string) {
			select {
			case <-in.ready:
				estate(in).leaveStanding()
			default: // it is told in a moment
			}
		},
		Odd: func(odd upstream.Oddity) {
			in.log(slog.LevelWarn, "a backend does what it should not: "+oddities[odd.What], "what", odd.What.String(), "times", odd.Count, "excerpt", in.of.mask(odd.Excerpt))
		},
		Ended: func(f *upstream.Failure) { in.giveUp(f) },
	}
	if o.Known, o.Pinned = in.of.configuredEra(); !o.Pinned {
		o.Known = in.b.catalogues.eraOf(in.of.Digest)
	}
	return o
}

// oddities say what a backend does that it should not.
var oddities = map[upstream.OddityKind]string{
	upstream.OddText:      "what it sends is no JSON; the log of a command belongs on its standard error",
	upstream.OddMessage:   "it sends JSON that is no message of the protocol",
	upstream.OddBatch:     "it sends several messages as one",
	upstream.OddAnswer:    "it answers what nobody has asked, or once more",
	upstream.OddProgress:  "it tells of progress of nothing that runs",
	upstream.OddQuestion:  "it asks what nobody may answer",
	upstream.OddCancel:    "it withdraws what is not open",
	upstream.OddAnonymous: "it sends an error without an id",
}

func (in lifetime) httpOptions(address string) upstream.HTTPOptions {
	h := upstream.HTTPOptions{URL: address, Client: in.b.c.HTTP, Clock: in.b.c.Clock}
	for name, value := range in.of.Options.Headers {
		if h.Header == nil {
			h.Header = make(map[string][]string)
		}
		h.Header.Set(name, value)
	}
	return h
}

// openLines starts a process, or a server in this one, and agrees with it on a revision. Nothing outlives a keeper that ends before that, and the next one can start
// it.
func (in lifetime) openLines(ctx context.Context, o upstream.Options) (conn *upstream.Conn, err error) {
	for range 3 {
		if conn, err = upstream.Start(ctx, in.beginServer, o); err == nil {
			return conn, nil
		}
		if !errors.Is(err, keeper.ErrEnded) && !in.lostKeeper() {
			break
		}
	}
	return nil, err
}

// lostKeeper reports whether the instance has ended with the keeper of its process.
func (in lifetime) lostKeeper() bool {
	p := in.proc.Load()
	return p != nil && p.EndedWithKeeper()
}

// beginServer starts a process, or a server in this one, and returns the link to it. One that was begun before is ended first.
func (in lifetime) beginServer(ctx context.Context) (upstream.Link, error) {
	in.endServer(restarted)
	if _, serve, ok := in.of.Target.Serve(); ok {
		return in.beginHere(serve), nil
	}
	p, err := in.startProcess(ctx)
	if err != nil {
		return nil, err
	}
	in.proc.Store(p)
	in.pid.Store(int64(p.PID()))
	if without := missingConfinement(p); without != "" {
		in.log(slog.LevelWarn, "a backend is not confined in every way that its configuration would try", "without", without)
	}
	return upstream.NewLines(newPipe(p, 0)), nil
}

// startProcess has the keeper start the command. With [keeper.ErrEnded] another one can.
func (in lifetime) startProcess(ctx context.Context) (*keeper.Process, error) {
	client, err := in.b.keeperClient(ctx)
	if err != nil {
		return nil, fmt.Errorf("no process can be started: %w", err)
	}
	id := in.b.newProcessID()
	complains := in.b.stderr.watch(id, in.of)
	p, err := client.Start(ctx, in.of.spec(in.b.c.Lookup, id, estate(in).encodeNote(), in.b.c.Dir))
	if err == nil {
		complains.Started(p.PID())
		return p, nil
	}
	in.b.stderr.forget(id)
	if errors.Is(err, keeper.ErrEnding) { // it starts nothing more, and ends what it has
		select {
		case <-client.Ended():
			return nil, client.Err()
		case <-ctx.Done():
		}
	}
	return nil, err
}

// beginHere starts a server in this process.
func (in lifetime) beginHere(serve func(context.Context, io.Reader, io.Writer) error) upstream.Link {
	feed := upstream.NewFeed()
	fromIt, toUs := io.Pipe()
	ctx, cancel := context.WithCancel(context.WithoutCancel(in.life))
	over := make(chan struct{})
	go func() {
		defer close(over)
		var err error
		if failure := in.b.containPanic(func() { err = serve(ctx, feed, toUs) }); failure != nil {
			err = failure
		}
		_ = toUs.CloseWithError(orEOF(err))
		_ = feed.Close()
	}()
	in.endLink = func() {
		_ = feed.Close()
		cancel()
		_ = fromIt.Close()
		if !awaitSignal(in.b.c.Clock, over, endWait) {
			in.b.c.Log.Error("a server in this process does not end with its context: what it has is lost until the process ends", "backend", in.of.Name)
		}
	}
	return upstream.NewLines(upstream.NewPipe(fromIt, feed, fromIt.Close))
}

func orEOF(err error) error {
	if err == nil {
		return io.EOF
	}
	return err
}

// endOrLeave ends the instance, or leaves it to the next process, and says how it ended.
func (in lifetime) endOrLeave(why error) parting {
	ending := context.WithoutCancel(in.life)
	x := in.place.end()
	kept := errors.Is(why, errKept) || errors.Is(why, errMoved) && in.place.stores.Load() != nil
	if x != nil {
		storing, cancel := context.WithTimeout(ending, endWait)
		defer cancel()
		defer x.release(storing)
		switch {
		case kept, in.lost && in.conn == nil: // whoever begins next tells what is lost
		default:
			kept = !x.removeStored(storing)
		}
	}
	ctx, cancel := context.WithTimeout(ending, endWait) // of its own: a store that is away keeps no backend from hearing of the end
	defer cancel()
	switch {
	case in.conn == nil:
	case kept:
		in.conn.Detach(ctx) // first, so that nothing is read of which the next process would not know
	default:
		in.conn.Close(ctx)
	}
	if kept {
		return parting{}
	}
	status, wrote := in.endServer(reasonOf(why))
	p := parting{status: in.of.mask(status), words: in.of.mask(joinTexts(status, wrote))}
	if stopping := (errStopping{}); errors.As(why, &stopping) || errors.Is(why, context.Canceled) {
		return p
	}
	text := strings.TrimPrefix(why.Error(), keeper.ErrStart.Error()+": ")
	if f, ok := errors.AsType[*upstream.Failure](why); ok {
		if text = f.Text; f.Excerpt != "" {
			text += ": " + f.Excerpt
		}
		if refusal, ok := errors.AsType[*mcp.Error](f.Err); ok {
			text += ": " + refusal.Message
		}
	}
	p.words = in.of.mask(joinTexts(text, status, wrote))
	return p
}

// joinTexts are the texts that are not empty, in one.
func joinTexts(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), "; ")
}

// endServer ends what the link of the instance leads to, all that it has started included. It returns how that ended, and what it wrote last.
func (in lifetime) endServer(why string) (status, wrote string) {
	if in.endLink != nil {
		in.endLink()
		in.endLink = nil
	}
	p := in.proc.Swap(nil)
	if p == nil {
		return "", ""
	}
	defer in.b.stderr.forget(p.ID())
	ended, err := p.Stop(context.WithoutCancel(in.life), why)
	p.Forget()
	if err != nil {
		return "how it ended is unknown: " + err.Error(), ""
	}
	return ended.String(), lastLines(ended)
}

// restarted is why a process ends that was spoken to in the wrong era.
const restarted = "restart"

func reasonOf(why error) string {
	if stopping := (errStopping{}); errors.As(why, &stopping) {
		return string(stopping.reason)
	}
	return string(pool.Exited)
}

// lastLines are those that a process wrote last to its standard error, "" if there are none.
func lastLines(s keeper.Status) string {
	if len(s.Stderr) == 0 {
		return ""
	}
	return "it wrote: " + strings.Join(s.Stderr[max(0, len(s.Stderr)-mostLastLines):], " | ")
}

// mostLastLines is how many lines of a process's standard error are shown in an error.
const mostLastLines = 5

// restoreSubscriptions has a new instance say what its holder follows. What the instance refuses is as if it had lost it: its holder is
// told of that loss in any case.
func restoreSubscriptions(ctx context.Context, in *instance) {
	for _, uri := range in.b.subscriptions.followed(ownership{in.of.Name, in.holder()}) {
		if in.isModern() {
			in.followed.add(uri)
			continue
		}
		if r, err := in.conn.Do(ctx, upstream.Request{Method: mcp.MethodResourcesSubscribe, Params: ResourceParams(uri)}); err == nil && r.Kind == upstream.Complete {
			in.followed.add(uri)
		}
	}
}
