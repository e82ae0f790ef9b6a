package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/troupe-run/troupe/mcp"
)

// A State is what another process needs to go on with a backend: over HTTP with its session and the
// streams of requests in flight, over lines with the answers to them, whoever kept the process. It holds
// the session's id, which is a secret: seal it before it is stored.
type State struct {
	Epoch    uint32
	Last     int64 // the id of the last request
	Session  string
	Standing string // the last event id of the standalone stream
	Settled  Settled
	Requests []Pending // by id
	// Questions are the raw ids of the questions that wait for an answer.
	Questions [][]byte
}

// A Pending is a request that was handed over and has no answer.
type Pending struct {
	ID     int64
	Method string
	Event  string // the last event id of its response stream, "" for none
}

// stateFormat is the number of the form below. A member that a later release adds is ignored by this one.
const stateFormat = 1

// storedState is a State as it is stored. Raw JSON is kept as base64, so that no byte of it changes.
type storedState struct {
	Format    int             `json:"format"`
	Epoch     uint32          `json:"epoch"`
	Last      int64           `json:"last"`
	Session   string          `json:"session,omitempty"`
	Standing  string          `json:"standing,omitempty"`
	Revision  string          `json:"revision"`
	Found     string          `json:"found"`
	Supported []string        `json:"supported,omitempty"`
	Result    []byte          `json:"result"`
	Requests  []storedPending `json:"requests,omitempty"`
	Questions [][]byte        `json:"questions,omitempty"`
}

type storedPending struct {
	ID     int64  `json:"id"`
	Method string `json:"method"`
	Event  string `json:"event,omitempty"`
}

// Marshal encodes a state for [UnmarshalState].
func (s *State) Marshal() ([]byte, error) {
	out := storedState{
		Format: stateFormat, Epoch: s.Epoch, Last: s.Last, Session: s.Session, Standing: s.Standing,
		Revision: s.Settled.Revision.String(), Found: s.Settled.Found.String(), Result: s.Settled.Result, Questions: s.Questions,
	}
	for _, r := range s.Settled.Supported {
		out.Supported = append(out.Supported, r.String())
	}
	for _, p := range s.Requests {
		out.Requests = append(out.Requests, storedPending(p))
	}
	return json.Marshal(out)
}

// UnmarshalState decodes what Marshal returned, of this release or another. It refuses what is none, and what is beyond
// the bounds of a Conn.
func UnmarshalState(data []byte) (*State, error) {
	var in storedState
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, fmt.Errorf("upstream: decode state: %w", err)
	}
	revision, known := mcp.ParseRevision(in.Revision)
	found, named := ParseEra(in.Found)
	switch {
	case in.Format != stateFormat:
		return nil, fmt.Errorf("upstream: decode state: format %d is of another release", in.Format)
	case !known || !named:
		return nil, errors.New("upstream: decode state: it names no revision or era")
	case len(in.Requests) > MostOpen || len(in.Questions) > MostQuestions:
		return nil, errors.New("upstream: decode state: it has too many requests")
	case in.Last < 0 || in.Last > 1<<53:
		return nil, errors.New("upstream: decode state: its ids are none")
	case in.Session != "" && !isToken(in.Session) || in.Standing != "" && !isToken(in.Standing):
		return nil, errors.New("upstream: decode state: its session is none")
	}
	settled, f := settledOf(revision, in.Result)
	if f != nil {
		return nil, fmt.Errorf("upstream: decode state: %w", f)
	}
	settled.Found = found
	for _, text := range in.Supported {
		if r, ok := mcp.ParseRevision(text); ok {
			settled.Supported = append(settled.Supported, r)
		}
	}
	s := &State{Epoch: in.Epoch, Last: in.Last, Session: in.Session, Standing: in.Standing, Settled: settled}
	for _, p := range in.Requests {
		if p.ID <= 0 || p.Event != "" && !isToken(p.Event) {
			return nil, errors.New("upstream: decode state: a request is none")
		}
		s.Requests = append(s.Requests, Pending(p))
	}
	for _, id := range in.Questions {
		if !isRawID(id) {
			return nil, errors.New("upstream: decode state: a question is none")
		}
		s.Questions = append(s.Questions, id)
	}
	return s, nil
}

// State returns what another process needs to go on, as it is now. It changes with each request, event and question; what is stored
// may be older than what happened, since ids never come twice ([Options].Epoch).
func (c *Conn) State() *State {
	s := &State{Epoch: c.o.Epoch, Settled: c.settled}
	s.Session = c.Session()
	c.calling.Lock()
	defer c.calling.Unlock()
	s.Last, s.Standing = c.calls.last, c.calls.standing
	for _, id := range slices.Sorted(maps.Keys(c.calls.open)) {
		one := c.calls.open[id]
		s.Requests = append(s.Requests, Pending{id, one.method, one.event})
	}
	for _, id := range slices.Sorted(maps.Keys(c.calls.questions)) {
		s.Questions = append(s.Questions, []byte(id))
	}
	return s
}

// Resume goes on with a backend over a new link: to the same URL, or the same process. No handshake is made, and nothing is
// sent. again is called with each request in flight, before anything is read, and returns the functions that get what
// belongs to it, as a Request; [Conn.Rejoin] then waits for the answer. The Epoch of the Options has to be greater than that of the
// state, or ids of the two processes could be the same. After an error, a *[Failure], the link is closed.
func Resume(ctx context.Context, link Link, s *State, o Options, again func(Pending) Request) (*Conn, error) {
	o.Epoch = max(o.Epoch, s.Epoch+1)
	c := newConn(link, o)
	c.settled = s.Settled
	k := c.calls
	k.ready, k.modern, k.standing = true, s.Settled.Revision.Stateless(), s.Standing
	k.last = max(k.last, s.Last)
	r, canResume := link.(resumer)
	c.rejoined = map[int64]*call{}
	for _, p := range s.Requests {
		// Of a link with streams, the stream that Rejoin takes up decides whether the call is lost.
		one := &call{id: p.ID, method: p.Method, q: again(p), event: p.Event, handed: !canResume, done: make(chan struct{})}
		k.open[p.ID], c.rejoined[p.ID] = one, one
	}
	for _, id := range s.Questions {
		k.questions[string(id)] = 0
	}
	if canResume {
		k.heard = make(map[string]bool, len(s.Questions))
		for _, id := range s.Questions {
			k.heard[string(id)] = true
		}
		r.adopt(s.Session, s.Standing)
	}
	if err := c.openLink(ctx); err != nil {
		return nil, err
	}
	if l, ok := link.(listener); ok && o.Standalone && !s.Settled.Revision.Stateless() {
		l.listen(s.Settled.Revision)
	}
	return c, nil
}

// Rejoin waits for the answer to a request that another process sent, as [Conn.Do] does for one of its own. The error is a
// *[Failure]: a response stream without event ids cannot be taken up, and its request is lost.
func (c *Conn) Rejoin(ctx context.Context, id int64) (Response, error) {
	c.calling.Lock()
	one := c.rejoined[id]
	delete(c.rejoined, id)
	c.calling.Unlock()
	if one == nil {
		return Response{}, &Failure{Why: ReasonEnded, Text: "the request is not in flight"}
	}
	var err error
	if r, ok := c.link.(resumer); ok {
		err = r.rejoin(ctx, Outgoing{ID: id, Method: one.method, Revision: c.settled.Revision}, one.event)
	}
	response, f := c.awaitAnswer(ctx, one, err, true)
	if f != nil {
		return Response{}, f
	}
	return response, nil
}

// settledOf reads what was settled from the result of the handshake.
func settledOf(r mcp.Revision, result []byte) (Settled, *Failure) {
	if !isObject(result) {
		return Settled{}, badHandshake("the result of the handshake is no object", result)
	}
	if r.Stateless() {
		return readDiscover(result, nil)
	}
	s, f := readInitialize(result)
	if f == nil && s.Revision != r {
		f = noRevision(result)
	}
	return s, f
}
