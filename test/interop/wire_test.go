package interop

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
)

// wire is the transport below a client: it keeps the exchanges.
type wire struct {
	base *http.Transport

	mu        sync.Mutex // guards exchanges and what they have read
	exchanges []*exchange
}

// nodeHeader says which node a request goes to, where there are several.
const nodeHeader = "Interop-Node"

// exchange is one HTTP request and the part of its response that the client has read.
type exchange struct {
	verb   string
	header http.Header
	sent   message
	status int
	kind   string // content type of the response
	body   bytes.Buffer
	end    error // that reading the body came to
}

// message is the part of a JSON-RPC message that the tests read.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

func newWire() *wire {
	return &wire{base: &http.Transport{MaxIdleConnsPerHost: 64}}
}

func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	x := &exchange{verb: req.Method, header: req.Header.Clone()}
	if req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			return nil, err
		}
		if err := json.NewDecoder(body).Decode(&x.sent); err != nil {
			return nil, err
		}
	}
	w.mu.Lock()
	w.exchanges = append(w.exchanges, x)
	w.mu.Unlock()
	resp, err := w.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	x.status, x.kind = resp.StatusCode, resp.Header.Get("Content-Type")
	w.mu.Unlock()
	resp.Body = &tee{resp.Body, w, x}
	return resp, nil
}

// tee keeps what the client reads of a body.
type tee struct {
	io.ReadCloser
	w *wire
	x *exchange
}

func (t *tee) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	t.w.mu.Lock()
	t.x.body.Write(p[:n])
	t.x.end = err
	t.w.mu.Unlock()
	return n, err
}

// seen is an exchange at one moment.
type seen struct {
	verb     string
	header   http.Header
	sent     message
	status   int
	kind     string
	received []message
	ids      []string // of the events whose end has been read
	lastID   string   // the last of them
	end      error
}

// find returns the exchanges for which the condition holds, in the order in which they began.
func (w *wire) find(holds func(seen) bool) []seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []seen
	for _, x := range w.exchanges {
		s := seen{verb: x.verb, header: x.header, sent: x.sent, status: x.status, kind: x.kind, end: x.end}
		s.received, s.ids = received(x.kind, x.body.String())
		if len(s.ids) > 0 {
			s.lastID = s.ids[len(s.ids)-1]
		}
		if holds(s) {
			found = append(found, s)
		}
	}
	return found
}

// received returns the complete messages of a body, and the ids of its complete events.
func received(kind, body string) (messages []message, ids []string) {
	texts := []string{body}
	if strings.HasPrefix(kind, "text/event-stream") {
		texts = nil
		events := strings.Split(body, "\n\n")
		for _, event := range events[:len(events)-1] {
			for line := range strings.Lines(event) {
				switch field, value, _ := strings.Cut(strings.TrimSpace(line), ":"); field {
				case "id":
					ids = append(ids, strings.TrimSpace(value))
				case "data":
					texts = append(texts, value)
				}
			}
		}
	}
	for _, text := range texts {
		var m message
		if json.Unmarshal([]byte(text), &m) == nil { // an event that only has an id has no message
			messages = append(messages, m)
		}
	}
	return messages, ids
}

// calls selects the requests that call a method.
func calls(method string) func(seen) bool {
	return func(s seen) bool { return s.verb == http.MethodPost && s.sent.Method == method }
}

// resumes selects the requests that resume a stream.
func resumes(s seen) bool { return s.verb == http.MethodGet && s.header.Get("Last-Event-Id") != "" }
