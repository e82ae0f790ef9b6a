package loadgen

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// manyServer is a server of sessions and streams in virtual time. Its fields are set before the
// run, and say what it does wrong.
type manyServer struct {
	sameID  bool                                            // all sessions have one id
	gone    func(session int) bool                          // a session that does not answer pings
	breaks  func(stream int) bool                           // an idle stream that ends after 3 s
	copies  func(stream, update int) int                    // how often a stream hears of an update; nil: once
	repeats bool                                            // a listener begins with an update
	replay  func(session, from int) []int                   // the numbers that a resume sends, to 20; nil: all of them
	parts   func(session int) bool                          // a resumed stream ends after two numbers
	pace    func(from string) (took time.Duration, ok bool) // of echo
	asked   func(host string)                               // is told of each request; nil: nobody

	mu       sync.Mutex // guards the rest
	sessions int
	streams  int
	pongs    int
	ended    map[string]int
	updates  int
	hear     map[int]chan int // by stream
	ids      map[string]string
	slow     int // streams whose readers are slow
}

// serve runs f in virtual time with options for the server.
func (s *manyServer) serve(t *testing.T, f func(t *testing.T, o Options)) {
	synctest.Test(t, func(t *testing.T) {
		s.ended, s.hear, s.ids = make(map[string]int), make(map[int]chan int), make(map[string]string)
		p := &pipes{conns: make(chan net.Conn), over: make(chan struct{})}
		server := &http.Server{Handler: s}
		go func() { _ = server.Serve(p) }()
		f(t, Options{URL: "http://server/mcp", Dial: p.dial})
		_ = server.Close()
		time.Sleep(2 * time.Minute) // for handlers that wait
	})
}

func (s *manyServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.asked != nil {
		s.asked(r.Host)
	}
	body, _ := io.ReadAll(r.Body)
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Name      string
			Arguments struct {
				Text string
				To   int
			}
		}
	}
	_ = json.Unmarshal(body, &m)
	session := r.Header.Get("Mcp-Session-Id")
	number, _ := strconv.Atoi(session)
	reply := func(result string) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}
	switch {
	case r.Method == http.MethodDelete:
		s.mu.Lock()
		s.ended[session]++
		s.mu.Unlock()
	case r.Method == http.MethodGet && r.Header.Get("Last-Event-ID") != "":
		s.resume(w, session, number, r.Header.Get("Last-Event-ID"))
	case r.Method == http.MethodGet:
		s.listen(w, r, "")
	case m.Method == "subscriptions/listen":
		s.listen(w, r, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"resourceSubscriptions":["`+watched+`"]}}}`)
	case m.Method == "initialize":
		s.mu.Lock()
		if s.sessions++; !s.sameID || s.sessions == 1 {
			number = s.sessions
		} else {
			number = 1
		}
		s.mu.Unlock()
		w.Header().Set("Mcp-Session-Id", strconv.Itoa(number))
		reply(`{"protocolVersion":"` + DefaultRevision + `"}`)
	case m.Method == "tools/list":
		reply(`{"tools":[{"name":"echo"},{"name":"count"},{"name":"touch"}]}`)
	case m.Method == "ping" && s.gone != nil && s.gone(number):
		w.WriteHeader(http.StatusNotFound)
	case m.Method == "ping", m.Method == "resources/subscribe":
		reply(`{}`)
	case m.Params.Name == "touch":
		s.touch()
		reply(`{"content":[]}`)
	case m.Params.Name == "count":
		s.count(w, r, session, string(m.ID), m.Params.Arguments.To)
	case m.Params.Name == "echo":
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		took, ok := s.pace(host)
		if time.Sleep(took); !ok {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		answer(w, string(m.ID), m.Params.Arguments.Text)
	default:
		if m.Method == "" {
			s.mu.Lock()
			s.pongs++
			s.mu.Unlock()
		}
		w.WriteHeader(http.StatusAccepted)
	}
}

// listen is a stream that tells of updates. A comment and a ping come every 2 s.
func (s *manyServer) listen(w http.ResponseWriter, r *http.Request, first string) {
	s.mu.Lock()
	n := s.streams
	s.streams++
	hear := make(chan int, 100)
	s.hear[n] = hear
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.hear, n)
		s.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(text string) {
		_, _ = io.WriteString(w, text)
		w.(http.Flusher).Flush()
	}
	send(": hello\n\nid: 0\ndata:\n\n")
	const update = `data: {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"` + watched + `"}}` + "\n\n"
	if first != "" {
		send("data: " + first + "\n\n")
	}
	if s.repeats {
		send(update)
	}
	var end <-chan time.Time
	if s.breaks != nil && s.breaks(n) {
		end = time.After(3 * time.Second)
	}
	for {
		select {
		case times := <-hear:
			time.Sleep(7 * time.Millisecond)
			send(strings.Repeat(update, times))
		case <-time.After(2 * time.Second):
			send(": still here\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\n")
		case <-end:
			return
		case <-r.Context().Done():
			return
		}
	}
}

func (s *manyServer) touch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, hear := range s.hear {
		times := 1
		if s.copies != nil {
			times = s.copies(n, s.updates)
		}
		if times > 0 {
			hear <- times
		}
	}
	s.updates++
}

// count tells the numbers, whose events have their names as ids, as long as somebody reads.
func (s *manyServer) count(w http.ResponseWriter, r *http.Request, session, id string, to int) {
	s.mu.Lock()
	s.ids[session] = id
	if to > steps {
		s.slow++
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if to > steps {
			s.slow--
		}
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	for n := 1; n <= to && r.Context().Err() == nil; n++ {
		time.Sleep(stepPause)
		if _, err := io.WriteString(w, numbered(id, n)); err != nil {
			return
		}
		w.(http.Flusher).Flush()
	}
	_, _ = io.WriteString(w, counted(id))
}

func (s *manyServer) resume(w http.ResponseWriter, session string, number int, last string) {
	time.Sleep(30 * time.Millisecond)
	from, _ := strconv.Atoi(last)
	s.mu.Lock()
	id := s.ids[session]
	s.mu.Unlock()
	var numbers []int
	for n := from + 1; n <= steps; n++ {
		numbers = append(numbers, n)
	}
	if s.replay != nil {
		numbers = s.replay(number, from)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for i, n := range numbers {
		if i == 2 && s.parts != nil && s.parts(number) {
			return
		}
		_, _ = io.WriteString(w, numbered(id, n))
	}
	w.(http.Flusher).Flush()
	time.Sleep(20 * time.Millisecond)
	_, _ = io.WriteString(w, counted(id))
}

func numbered(id string, n int) string {
	return fmt.Sprintf("id: %d\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":%s,\"progress\":%d}}\n\n", n, id, n)
}

func counted(id string) string {
	return fmt.Sprintf("id: 21\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[]}}\n\n", id)
}

// judge compares what a run came to.
func judge(t *testing.T, r *Report, err error, operations int64, errors map[string]int64) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if r.Operations != operations {
		t.Errorf("%d operations, want %d", r.Operations, operations)
	}
	if got, want := fmt.Sprint(r.Errors), fmt.Sprint(errors); got != want {
		t.Errorf("errors are %s, want %s: %v", got, want, r.Examples)
	}
	var text strings.Builder
	if err := r.Print(&text); err != nil {
		t.Error(err)
	}
	t.Log("\n" + text.String())
}
