package host

import (
	"encoding/json"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
)

// Equal fails the test unless got is want.
func Equal(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %.2000s\nwant %.2000s", what, got, want)
	}
}

// Contains fails the test unless want is a part of got.
func Contains(t *testing.T, what, got, want string) {
	t.Helper()
	if !strings.Contains(got, want) {
		t.Errorf("%s: got %s, which lacks %s", what, got, want)
	}
}

// Sized returns whole with -tags full, and otherwise small. With the race detector, which makes everything many times
// slower, it always returns small.
func Sized[T any](whole, small T) T {
	if when.FullSize && !when.RaceEnabled {
		return whole
	}
	return small
}

// Brief returns usual, or brief with -short.
func Brief[T any](usual, brief T) T {
	if testing.Short() {
		return brief
	}
	return usual
}

// Heap returns the number of bytes on the heap after a collection.
func Heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// InUse returns the number of bytes of the heap and the stacks after a collection.
func InUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// Leftovers is what a runtime still holds when everything has expired.
type Leftovers struct {
	Goroutines int      // in the bubble
	Stacks     []string // of these
	Heap       uint64
	Actors     map[string]int64
	Stored     map[string]int64
	Held       map[string]int64 // calls, connections, questions and the like
}

// Leftovers counts once at most that many goroutines are left, or after ten seconds: the store has some that come and
// go. The test must be in a bubble.
func (h *Host) Leftovers(goroutines int) Leftovers {
	synctest.Wait()
	stacks := bubbleStacks()
	for i := 0; i < 10 && len(stacks) > goroutines; i++ {
		time.Sleep(time.Second)
		synctest.Wait()
		stacks = bubbleStacks()
	}
	l := Leftovers{Goroutines: len(stacks), Stacks: stacks, Heap: Heap(), Actors: map[string]int64{}, Stored: map[string]int64{}, Held: h.held()}
	for _, kind := range []string{"node", "session", "request", "stream", "subscription", "task", "queue"} {
		l.Actors[kind] = h.Actors(kind)
	}
	for _, stream := range []string{"sessions", "events"} {
		l.Stored[stream] = h.Stored(stream)
	}
	return l
}

// bubble finds the bubble of virtual time in the first line of a goroutine's stack.
var bubble = regexp.MustCompile(`^goroutine .*(synctest bubble \d+)`)

// bubbleStacks are the stacks of the goroutines in the caller's bubble. Others of the process come and go by real time.
func bubbleStacks() (stacks []string) {
	own := bubble.FindSubmatch(stack(false))
	for s := range strings.SplitSeq(string(stack(true)), "\n\n") {
		if in := bubble.FindStringSubmatch(s); in != nil && own != nil && in[1] == string(own[1]) {
			stacks = append(stacks, s)
		}
	}
	return stacks
}

// stack is the stack of this goroutine, or of all.
func stack(all bool) []byte {
	for buf := make([]byte, 1<<20); ; buf = make([]byte, 2*len(buf)) {
		if n := runtime.Stack(buf, all); n < len(buf) {
			return buf[:n]
		}
	}
}

// TurnedAway reports whether a refuses a request of a session that may be sent again.
func TurnedAway(a *kit.Answer) bool {
	return a.StatusCode == 200 && !a.Stream() && a.Header.Get("Retry-After") != "" && strings.Contains(a.Body, `,"data":{"retryAfterMs":`)
}

// Cursor returns the cursor of the next page, which the response to a list must have.
func Cursor(t testing.TB, a *kit.Answer) string {
	t.Helper()
	var m struct {
		Result struct{ NextCursor string }
	}
	if err := json.Unmarshal([]byte(a.Body), &m); err != nil || m.Result.NextCursor == "" {
		t.Fatalf("no cursor in %s: %v", a.Body, err)
	}
	return m.Result.NextCursor
}

// ToolsOf lists all tools by name, page by page, and counts the pages.
func ToolsOf(t *testing.T, c *kit.Client) (names []string, raw map[string]string, pages int) {
	t.Helper()
	raw = map[string]string{}
	params := ""
	for {
		var page struct {
			Result struct {
				Tools      []json.RawMessage
				NextCursor string
			}
		}
		a := c.Post(Method("1", "tools/list", params))
		if err := json.Unmarshal([]byte(a.Body), &page); err != nil {
			t.Fatalf("%s: %v", a.Body, err)
		}
		pages++
		for _, tool := range page.Result.Tools {
			var n struct{ Name string }
			if err := json.Unmarshal(tool, &n); err != nil {
				t.Fatal(err)
			}
			names, raw[n.Name] = append(names, n.Name), string(tool)
		}
		if page.Result.NextCursor == "" {
			return names, raw, pages
		}
		params = `{"cursor":"` + page.Result.NextCursor + `"}`
	}
}

// Untimed returns the events of a resumed stream without the retry time of the first one.
func Untimed(t *testing.T, events []kit.Event) []kit.Event {
	t.Helper()
	if len(events) > 0 {
		if events[0].Retry == "" {
			t.Errorf("the first event of a connection does not say when to come back: %+v", events[0])
		}
		events[0].Retry = ""
	}
	return events
}

// BadEvent fails the test unless a refuses the Last-Event-ID of its request.
func BadEvent(t *testing.T, a *kit.Answer) {
	t.Helper()
	if a.StatusCode != 400 {
		t.Errorf("status %s, want 400", a.Status)
	}
	Equal(t, "bad event id", a.Body, `{"jsonrpc":"2.0","error":{"code":-32011,"message":"the event id cannot be resumed from"}}`)
}

// NotAsked fails the test unless a is the response want, without a question to the client before it.
func NotAsked(t *testing.T, what string, a *kit.Answer, want string) {
	t.Helper()
	if a.Stream() {
		t.Errorf("%s: the client was asked", what)
		a.Close()
		return
	}
	Equal(t, what, a.Body, want)
}
