package actors

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
)

// Keys seal what clients carry for a node, so that any node can open it and nobody
// else can read or change it. aad must be the same for both. ErrUnavailable, wrapped,
// reports that the keys cannot be read now, so that nobody can tell whether sealed is
// good. Any other error of Open says that it is not, and never will be.
type Keys interface {
	Seal(plain, aad []byte) ([]byte, error)
	Open(sealed, aad []byte) ([]byte, error)
}

// maxStateAge is how long a client may take to send a request again.
var maxStateAge = limits.RetryWait.Value()

// askState is what a requestState holds: for whom, for which request and until
// when it is good, where the call waits, and the answers so far.
type askState struct {
	Method  string                     `json:"m"`
	Request string                     `json:"r"` // hash of what the request asks for
	Expires int64                      `json:"e"` // unix milliseconds
	Park    string                     `json:"p"`
	Round   int                        `json:"n"`
	Given   map[string]json.RawMessage `json:"g,omitempty"`
}

func (s *askState) given() map[string][]byte {
	all := make(map[string][]byte, len(s.Given))
	for k, v := range s.Given {
		all[k] = v
	}
	return all
}

// requestDigest stands for what a request asks for: its arguments by value, and the
// name or URI, but not its _meta, its answers or its state.
func requestDigest(m *codec.Message) string {
	h := sha256.New()
	for _, part := range [][]byte{m.Name, m.URI, m.Arguments} {
		part = codec.AppendCanonical(nil, part)
		h.Write([]byte{byte(len(part) >> 24), byte(len(part) >> 16), byte(len(part) >> 8), byte(len(part))})
		h.Write(part)
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

func stateFor(tenant, server string) []byte {
	return []byte("requestState\x00" + tenant + "\x00" + server)
}

// seal makes the state of the call's next round.
func (p *parked) seal(c *Call, in *input, expires time.Time) (string, error) {
	st := askState{Method: string(c.msg.Method), Request: requestDigest(c.msg), Expires: expires.UnixMilli(), Park: in.park, Round: in.round + 1}
	size := 0
	if len(in.taken) > 0 { // what has answered nothing is not worth carrying
		st.Given = make(map[string]json.RawMessage, len(in.taken))
		for _, k := range in.taken {
			v := in.given[k]
			st.Given[k] = v
			size += len(k) + len(v)
		}
	}
	if size > maxInput {
		p.node.refusals.count(AskInput)
		return "", ErrTooMuchInput
	}
	plain, err := codec.Marshal(st)
	if err != nil {
		return "", err
	}
	sealed, err := p.keys.Seal(plain, stateFor(c.peer.key.Tenant, c.peer.key.Server))
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(sealed), nil
}

// errBadState stands for whatever is wrong with a state: its client is told no more.
var errBadState = errors.New("actors: bad requestState")

// open opens the state that a request brings. errBadState reports that it is not
// good for this request of this client now, ErrUnavailable that nobody can tell.
func (p *parked) open(svc *Service, tenant string, m *codec.Message, now time.Time) (*askState, error) {
	text, ok := codec.Str(m.State)
	if !ok || strings.ContainsAny(text, "\r\n") { // which the decoder would skip
		return nil, errBadState
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, errBadState
	}
	plain, err := p.keys.Open(sealed, stateFor(tenant, svc.ID))
	switch {
	case errors.Is(err, ErrUnavailable):
		return nil, err
	case err != nil:
		return nil, errBadState
	}
	st := new(askState)
	if codec.Unmarshal(plain, st) != nil || st.Method != string(m.Method) || st.Request != requestDigest(m) || now.UnixMilli() >= st.Expires {
		return nil, errBadState
	}
	return st, nil
}
