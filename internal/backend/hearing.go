package backend

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/upstream"
	"github.com/troupe-run/troupe/mcp"
)

const (
	// ackWait bounds how long an instance may take to acknowledge what it is asked to tell. One that says nothing is taken by its word later.
	ackWait = 5 * time.Second
	// firstAckWait is how long the first lists of an instance wait for that, so that no change is missed that comes between.
	firstAckWait = time.Second
	// A request for news that has ended is made again after listenAgain, and twice as long each time, up to mostListenAgain, unless it has
	// lasted for that.
	listenAgain     = time.Second
	mostListenAgain = time.Minute
)

// hearing is how an instance says what nobody has asked for. One of the newer era has one request open (subscriptions/listen), whose filter has the lists
// that it declares to change and the resources that are followed; one of the older era says it anyway, and is asked resource by resource.
type hearing struct{ *instance }

// followed are the resources of which an instance says when they change.
type followed struct {
	mu      sync.Mutex // guards the rest
	uris    map[string]bool
	changed *filterChange // waits for the filter to be asked for, nil if nothing has changed
	wake    chan struct{} // that something has
	former  int64         // the request for news that an earlier process has left open, 0 for none
}

// A filterChange is waited for by whoever has changed a filter.
type filterChange struct {
	over    chan struct{} // closed once the instance has acknowledged the filter, or has refused it
	refused []byte        // the error, raw; nil for none
}

func (c *filterChange) finish(refused []byte) {
	if c != nil {
		c.refused = refused
		close(c.over)
	}
}

// add adds a resource, and returns what to wait for, nil if there are as many as there may be.
func (f *followed) add(uri string) *filterChange {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.uris == nil {
		f.uris = make(map[string]bool)
	}
	if len(f.uris) >= mostSubscribed && !f.uris[uri] {
		return nil
	}
	f.uris[uri] = true
	return f.noteChange()
}

// remove takes a resource away, and reports whether it was there.
func (f *followed) remove(uri string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.uris[uri]
	if delete(f.uris, uri); was {
		f.noteChange()
	}
	return was
}

// noteChange has the filter be asked for again, and returns what to wait for until it is. mu is held.
func (f *followed) noteChange() *filterChange {
	if f.changed == nil {
		f.changed = &filterChange{over: make(chan struct{})}
	}
	select {
	case f.wake <- struct{}{}:
	default:
	}
	return f.changed
}

// expectFilter has the filter asked for again, and returns what to wait for until it is.
func (f *followed) expectFilter() *filterChange {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.noteChange()
}

// all are the resources, in order.
func (f *followed) all() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.uris))
}

// takeFilter returns the filter that is to be asked for, nil if it would be empty, and who waits for it. declared has which lists may change.
func (f *followed) takeFilter(declared mcp.SubscriptionFilter, resources bool) (filter []byte, uris []string, waits *filterChange) {
	if uris = f.all(); resources {
		declared.ResourceSubscriptions = uris
	}
	f.mu.Lock()
	waits, f.changed = f.changed, nil
	f.mu.Unlock()
	if !declared.ToolsListChanged && !declared.PromptsListChanged && !declared.ResourcesListChanged && len(declared.ResourceSubscriptions) == 0 {
		return nil, uris, waits
	}
	return mcp.Raw(declared), uris, waits
}

// followResource has an instance of the newer era say when a resource changes. It returns when the instance knows.
func (in hearing) followResource(ctx context.Context, uri string) (upstream.Response, error) {
	change := in.followed.add(uri)
	if change == nil {
		return upstream.Response{Kind: upstream.Refused, Error: mcp.Raw(mcp.NewError(mcp.CodeInternalError, "the backend is asked about as many resources as it may be"))}, nil
	}
	select {
	case <-change.over:
	case <-in.life.Done():
		return upstream.Response{}, &upstream.Failure{Why: upstream.ReasonEnded, Outcome: upstream.NotRun, Text: "the backend has ended"}
	case <-ctx.Done():
		in.followed.remove(uri)
		return upstream.Response{}, context.Cause(ctx)
	}
	if change.refused != nil {
		in.followed.remove(uri)
		return upstream.Response{Kind: upstream.Refused, Error: change.refused}, nil
	}
	return upstream.Response{Result: []byte("{}")}, nil
}

// unfollowResource has an instance no longer say when a resource changes.
func (in hearing) unfollowResource(ctx context.Context, uri string) (upstream.Response, error) {
	if !in.followed.remove(uri) || in.isModern() {
		return upstream.Response{Result: []byte("{}")}, nil
	}
	in.leaveFollowed(0, in.followed.all())
	return in.conn.Do(ctx, upstream.Request{Method: mcp.MethodResourcesUnsubscribe, Params: ResourceParams(uri)})
}

// A newsRequest is one request for news that is open.
type newsRequest struct {
	filter   []byte
	id       int64
	acked    chan struct{} // closed once the instance has said what it will tell
	over     chan struct{} // closed once it has ended
	response upstream.Response
	err      error // both are set before over is closed
	end      context.CancelFunc
	began    time.Time
}

// ended is closed once an ear has ended; nil, which never is, for none.
func (e *newsRequest) ended() <-chan struct{} {
	if e == nil {
		return nil
	}
	return e.over
}

// listen has an instance of the newer era tell of changes until ctx ends. A request with a new filter is open before the one with the old
// filter ends, so that nothing is missed between the two.
func (in hearing) listen(ctx context.Context) {
	var now *newsRequest // nil while none is open
	tries, missed := 0, false
	declared, resources := in.declared()
	for ctx.Err() == nil {
		filter, uris, waits := in.followed.takeFilter(declared, resources)
		if now == nil && filter == nil || now != nil && bytes.Equal(now.filter, filter) {
			waits.finish(nil)
			select {
			case <-in.followed.wake:
			case <-now.ended():
				if in.b.c.Clock.Now().Sub(now.began) >= mostListenAgain {
					tries = 0
				}
				now, missed = nil, true
				in.awaitRetry(ctx, &tries)
			case <-ctx.Done():
			}
			continue
		}
		if filter == nil {
			now.end()
			now = nil
			in.leaveFollowed(0, uris)
			waits.finish(nil)
			continue
		}
		next := in.requestNews(ctx, filter)
		if refused, open := in.awaitAck(ctx, next); !open {
			waits.finish(refused)
			in.awaitRetry(ctx, &tries)
			continue
		}
		if now != nil {
			now.end()
		}
		now = next
		in.leaveFollowed(now.id, uris)
		in.endFormer(ctx)
		waits.finish(nil)
		if missed {
			in.catchUp(declared, uris)
			missed = false
		}
	}
	_, _, waits := in.followed.takeFilter(declared, resources)
	waits.finish(nil)
}

// declared returns of which lists the instance says that they may change, and whether it tells of resources.
func (in hearing) declared() (lists mcp.SubscriptionFilter, resources bool) {
	var c mcp.ServerCapabilities
	if codec.Unmarshal(in.conn.Settled().Capabilities, &c) != nil {
		return lists, false
	}
	lists.ToolsListChanged = c.Tools != nil && c.Tools.ListChanged
	lists.PromptsListChanged = c.Prompts != nil && c.Prompts.ListChanged
	lists.ResourcesListChanged = c.Resources != nil && c.Resources.ListChanged
	return lists, c.Resources != nil && c.Resources.Subscribe
}

// requestNews asks the instance for what a filter has.
func (in hearing) requestNews(ctx context.Context, filter []byte) *newsRequest {
	e := &newsRequest{filter: filter, id: in.conn.NewID(), acked: make(chan struct{}), over: make(chan struct{}), began: in.b.c.Clock.Now()}
	ctx, e.end = context.WithCancel(ctx)
	var once sync.Once
	q := upstream.Request{
		ID: e.id, Method: mcp.MethodSubscriptionsListen, Params: append(append([]byte(`{"notifications":`), filter...), '}'),
		Event: func(said upstream.Event) {
			if said.Method == mcp.NotifySubscriptionsAcknowledged {
				once.Do(func() { close(e.acked) })
				return
			}
			_ = in.Post(&heard{said}) // nobody hears one that has ended
		},
	}
	in.b.lives.Go(func() {
		defer e.end()
		e.response, e.err = in.conn.Do(ctx, q)
		close(e.over)
	})
	return e
}

// awaitAck waits until the instance has acknowledged a request, or is taken to have. open is false for one that has ended, and refused is the
// instance's error.
func (in hearing) awaitAck(ctx context.Context, e *newsRequest) (refused []byte, open bool) {
	late := make(chan struct{})
	defer in.b.c.Clock.AfterFunc(ackWait, func() { close(late) })()
	select {
	case <-e.acked:
		return nil, true
	case <-late:
		return nil, true
	case <-ctx.Done():
	case <-e.over:
		if e.err == nil && e.response.Kind == upstream.Refused {
			refused = e.response.Error
		}
	}
	return refused, false
}

// awaitRetry waits before the next try, or until somebody follows another resource.
func (in hearing) awaitRetry(ctx context.Context, tries *int) {
	over := make(chan struct{})
	defer in.b.c.Clock.AfterFunc(min(listenAgain<<*tries, mostListenAgain), func() { close(over) })()
	*tries = min(*tries+1, 6)
	select {
	case <-over:
	case <-in.followed.wake:
	case <-ctx.Done():
	}
}

// catchUp has everything looked at that may have changed while the instance was not heard.
func (in hearing) catchUp(lists mcp.SubscriptionFilter, uris []string) {
	for method, may := range map[string]bool{
		mcp.NotifyToolsListChanged: lists.ToolsListChanged, mcp.NotifyPromptsListChanged: lists.PromptsListChanged, mcp.NotifyResourcesListChanged: lists.ResourcesListChanged,
	} {
		if may {
			in.noteStale(listsOf(method))
		}
	}
	for _, uri := range uris {
		_ = in.Post(&heard{upstream.Event{Method: mcp.NotifyResourcesUpdated, Params: ResourceParams(uri)}})
	}
}

// leftFollowed is what the keeper has of what an instance was asked to tell.
type leftFollowed struct {
	Request int64    `json:"request,omitempty"` // the id of the request for news, in the newer era
	URIs    []string `json:"uris,omitempty"`
}

// followedName is the name by which a keeper remembers that.
const followedName = "followed"

// leaveFollowed tells the keeper what the instance was asked to tell.
func (in hearing) leaveFollowed(request int64, uris []string) {
	if request == 0 && len(uris) == 0 {
		estate(in).remember(followedName, nil)
		return
	}
	estate(in).remember(followedName, leftFollowed{request, uris})
}

// restoreFollowed goes on with what an earlier process has asked the instance to tell, as a keeper remembers it.
func (in hearing) restoreFollowed(text []byte) {
	var left leftFollowed
	if text == nil || json.Unmarshal(text, &left) != nil {
		return
	}
	in.followed.former = left.Request
	for _, uri := range left.URIs {
		in.followed.add(uri)
	}
	in.b.subscriptions.note(ownership{in.of.Name, in.holder()}, left.URIs...)
}

// endFormer ends the request for news that an earlier process has left open, now that another one is.
func (in hearing) endFormer(ctx context.Context) {
	if in.followed.former == 0 {
		return
	}
	params := append(strconv.AppendInt([]byte(`{"requestId":`), in.followed.former, 10), '}')
	in.followed.former = 0
	_ = in.conn.Notify(ctx, mcp.NotifyCancelled, params) // one that goes on says everything twice, which does no harm
}
