package mrtr

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/troupe-run/troupe/codec"
)

// Digest stands for the answers that a request brings.
type Digest [sha256.Size]byte

// AnswersDigest is the Digest of the inputResponses of m.
func AnswersDigest(m *codec.Message) Digest {
	return sha256.Sum256(codec.AppendCanonical(nil, m.Responses))
}

// State is the content of a requestState: for which request it is good and until when,
// where the call waits, and the answers so far.
type State struct {
	Method  string                     `json:"m"`
	Request string                     `json:"r"` // hash of what the request asks for
	Expires int64                      `json:"e"` // unix milliseconds
	Park    string                     `json:"p"`
	Node    string                     `json:"h,omitempty"` // where the call waits; "" in a state of an earlier release
	Boot    string                     `json:"b,omitempty"` // of that node
	Round   int                        `json:"n"`
	Asked   []string                   `json:"q,omitempty"` // keys of the round's questions; nil in a state of an earlier release
	Given   map[string]json.RawMessage `json:"g,omitempty"`
	Scopes  []string                   `json:"a,omitempty"` // that the call needs, and so who sends it again
	Steps   []json.RawMessage          `json:"s,omitempty"` // results of steps, as the node of the call encodes them
	Span    string                     `json:"t,omitempty"` // of the run that waits, as a traceparent; "" where nobody traces
}

// Answers are the answers so far.
func (s *State) Answers() map[string][]byte {
	all := make(map[string][]byte, len(s.Given))
	for k, v := range s.Given {
		all[k] = v
	}
	return all
}

// RequestDigest stands for the content of a request: its arguments by value, and the name
// or URI, but not its _meta, its answers or its state.
func RequestDigest(m *codec.Message) string {
	h := sha256.New()
	for _, part := range [][]byte{m.Name, m.URI, m.Arguments} {
		part = codec.AppendCanonical(nil, part)
		h.Write([]byte{byte(len(part) >> 24), byte(len(part) >> 16), byte(len(part) >> 8), byte(len(part))})
		h.Write(part)
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// additionalData binds a state to the principal and the server that it was sealed for.
func additionalData(tenant, server string) []byte {
	return []byte("requestState\x00" + tenant + "\x00" + server)
}

// Seal returns the text that a client of a server carries. seal encrypts plain and binds it
// to aad.
func (s *State) Seal(tenant, server string, seal func(plain, aad []byte) ([]byte, error)) (string, error) {
	plain, err := codec.Marshal(s)
	if err != nil {
		return "", err
	}
	sealed, err := seal(plain, additionalData(tenant, server))
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(sealed), nil
}

// ErrBadState stands for any fault of a state: its client learns no more.
var ErrBadState = errors.New("mrtr: bad requestState")

// OpenState opens the state that m brings from a client of a server. ErrBadState reports that
// the state is not good for this request of this client now. open reverses seal; OpenState
// returns its errors as they are.
func OpenState(m *codec.Message, tenant, server string, now time.Time, open func(sealed, aad []byte) ([]byte, error)) (*State, error) {
	text, ok := codec.Str(m.State)
	if !ok || strings.ContainsAny(text, "\r\n") { // the decoder would skip line breaks
		return nil, ErrBadState
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, ErrBadState
	}
	plain, err := open(sealed, additionalData(tenant, server))
	if err != nil {
		return nil, err
	}
	st := new(State)
	if codec.Unmarshal(plain, st) != nil || st.Method != string(m.Method) || st.Request != RequestDigest(m) || now.UnixMilli() >= st.Expires {
		return nil, ErrBadState
	}
	return st, nil
}
