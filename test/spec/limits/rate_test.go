package limits_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestTenTimesTheRate has one client call at ten times its rate, and another client at the same address at half
// of it.
func TestTenTimesTheRate(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	when.Long(t, "a crowd")
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		const seconds = 10
		greedy, modest := h.Unchecked().Initialize(`{}`), h.Unchecked().Initialize(`{}`)
		done := make(chan int)
		go func() {
			passed := 0
			for i := range seconds * 50 {
				id := strconv.Itoa(i)
				if a := modest.Post(host.Call(id, "echo", `{"text":"x"}`)); a.Body == host.TextResult(id, "x") {
					passed++
				}
				time.Sleep(time.Second / 50)
			}
			done <- passed
		}()
		passed, refused := 0, 0
		for i := range seconds * 1000 {
			switch a := greedy.Post(host.Call(strconv.Itoa(i), "echo", `{"text":"x"}`)); {
			case a.StatusCode == 200 && !host.TurnedAway(a):
				passed++
			case a.StatusCode == 200 && a.Header.Get("Retry-After") == "1" &&
				strings.HasPrefix(a.Body, `{"jsonrpc":"2.0","id":`+strconv.Itoa(i)+`,"error":{"code":-32600,`):
				refused++
			default:
				t.Fatalf("call %d: %s %s", i, a.Status, a.Body)
			}
			time.Sleep(time.Second / 1000)
		}
		// A burst of 200, and 100 a second.
		if want := 200 + seconds*100; passed < want-1 || passed > want+1 || refused != seconds*1000-passed {
			t.Errorf("%d calls passed and %d were refused, want %d to pass", passed, refused, want)
		}
		if n := <-done; n != seconds*50 {
			t.Errorf("%d calls of the other client passed, want all %d", n, seconds*50)
		}
		time.Sleep(time.Second)
		a := greedy.Post(host.Call("1", "echo", `{"text":"x"}`))
		host.Equal(t, "a second later", a.Body, host.TextResult("1", "x"))
	})
}

// TestRetryAfterHolds checks that a client that comes back exactly when the error says is served.
func TestRetryAfterHolds(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Limits: troupe.Limits{CallRate: 0.3, CallBurst: 1}}, nil)
		c := h.Session()
		c.Post(host.Call("1", "echo", `{"text":"x"}`))
		for range 3 {
			a := c.Post(host.Call("1", "echo", `{"text":"x"}`))
			seconds, err := strconv.Atoi(a.Header.Get("Retry-After"))
			if a.StatusCode != 200 || err != nil {
				t.Fatalf("too early: %s, Retry-After %q", a.Status, a.Header.Get("Retry-After"))
			}
			host.Equal(t, "body", a.Body, host.Fault("1", host.Invalid, "too many calls per second in this session", `{"retryAfterMs":3334}`))
			time.Sleep(time.Duration(seconds)*time.Second - 700*time.Millisecond)
			if a := c.Post(host.Call("1", "echo", `{"text":"x"}`)); !host.TurnedAway(a) {
				t.Errorf("before its time: %s", a.Status)
			}
			time.Sleep(700 * time.Millisecond)
			host.Equal(t, "in time", c.Post(host.Call("1", "echo", `{"text":"x"}`)).Body, host.TextResult("1", "x"))
		}
	})
}

// TestBucketOutlivesTheMemoryOfASession has a rate so low that a session would leave memory before its bucket is
// full again.
func TestBucketOutlivesTheMemoryOfASession(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Limits: troupe.Limits{CallRate: 0.005, CallBurst: 1}}, nil)
		c := h.Session()
		host.Equal(t, "the first", c.Post(host.Call("1", "echo", `{"text":"x"}`)).Body, host.TextResult("1", "x"))
		time.Sleep(150 * time.Second)
		host.Equal(t, "after 150 s", c.Post(host.Call("1", "echo", `{"text":"x"}`)).Body, host.Fault("1", host.Invalid, "too many calls per second in this session", `{"retryAfterMs":50000}`))
		time.Sleep(50 * time.Second)
		host.Equal(t, "after 200 s", c.Post(host.Call("1", "echo", `{"text":"x"}`)).Body, host.TextResult("1", "x"))
		time.Sleep(5 * time.Minute)
		if n := h.Actors("session"); n != 0 {
			t.Errorf("%d sessions in memory once the bucket is full, want none", n)
		}
	})
}

// TestNoLimits switches the limits on numbers and rates off.
func TestNoLimits(t *testing.T) {
	when.Long(t, "thousands of calls")
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Limits: troupe.Limits{CallRate: -1, CallsPerSession: -1, StreamsPerSession: -1, PendingPerSession: -1, SubscriptionsPerSession: -1}, Shared: troupe.SharedLimits{PrincipalRate: -1, CallsPerPrincipal: -1, CallsPerNode: -1, StreamsPerPrincipal: -1, PendingPerPrincipal: -1, SessionsPerPrincipal: -1}}, nil)
		c := h.Unchecked().Initialize(`{"elicitation":{"form":{}}}`)
		for i := range 300 { // more than any session may have by default
			a := c.Post(host.Call(strconv.Itoa(i), "ask", `{"question":"?"}`))
			host.NextQuestion(t, a)
			t.Cleanup(a.Close)
		}
		for i := range 3000 {
			id := strconv.Itoa(1000 + i)
			host.Equal(t, "call", c.Post(host.Call(id, "echo", `{"text":"x"}`)).Body, host.TextResult(id, "x"))
		}
	})
}

// TestAddresses checks what counts as one address.
func TestAddresses(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Shared: troupe.SharedLimits{PrincipalRate: 0.1, PrincipalBurst: 1}, Middleware: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.RemoteAddr = r.Header.Get("X-From")
				next.ServeHTTP(w, r)
			})
		}}, nil)
		for _, tt := range []struct {
			first, second string
			same          bool
		}{
			{"192.0.2.1:1", "192.0.2.1:2", true},
			{"192.0.2.3:1", "192.0.2.4:1", false},
			{"192.0.2.5:1", "192.0.2.5", true},
			{"192.0.2.6:1", "[::ffff:192.0.2.6]:1", true},
			{"[2001:db8:0:1::1]:1", "[2001:db8:0:1::2]:2", true},
			{"[2001:db8:0:2::1]:1", "2001:db8:0:2::2", true},
			{"[2001:db8:0:3::1]:1", "[2001:db8:0:3::2]", true},
			{"[2001:db8:0:4::1]:1", "[2001:db8:0:5::1]:1", false},
			{"[fe80::1%eth0]:1", "[fe80::2%eth1]:1", true},
			{"@", "pipe", true},
			{"", "a.example:80", true},
		} {
			time.Sleep(20 * time.Second) // all buckets are full again
			refused := func(from string) bool {
				c := h.Unchecked()
				c.Header = http.Header{"X-From": {from}}
				return host.TurnedAway(c.Initialize(`{}`).Post(host.Call("1", "echo", `{"text":"x"}`)))
			}
			if refused(tt.first) {
				t.Errorf("%s: refused", tt.first)
			}
			if got := refused(tt.second); got != tt.same {
				t.Errorf("%s after %s: refused %v, want them counted together: %v", tt.second, tt.first, got, tt.same)
			}
		}
	})
}

// TestAccountsAreForgotten checks that nothing remains of principals that use nothing any more.
func TestAccountsAreForgotten(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		m := host.NewMeter()
		h := host.New(t, troupe.Options{Telemetry: troupe.Telemetry{MeterProvider: m}, Authenticate: host.User}, nil)
		for i := range 50 {
			c := host.As(h.Unchecked(), strconv.Itoa(i)).Initialize(`{}`)
			c.Post(host.Call("1", "echo", `{"text":"x"}`))
		}
		listens := host.As(h.Unchecked(), "listens").Initialize(`{}`)
		alone := listens.Get("")
		defer alone.Close()
		go alone.All()
		if n := m.Count("troupe.accounts", ""); n != 52 {
			t.Errorf("%d accounts, want one of each principal and that of their address", n)
		}
		time.Sleep(2 * time.Minute)
		if n := m.Count("troupe.accounts", ""); n != 1 {
			t.Errorf("%d accounts two minutes later, want that of the one who listens", n)
		}
		alone.Close()
		time.Sleep(2 * time.Minute)
		if n := m.Count("troupe.accounts", ""); n != 0 {
			t.Errorf("%d accounts at last, want none", n)
		}
	})
}

// TestAChangingAddressKeepsItsSession moves a session from one address to another: it goes on, and each address
// pays for its own requests.
func TestAChangingAddressKeepsItsSession(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Shared: troupe.SharedLimits{PrincipalRate: 0.001, PrincipalBurst: 2}, Middleware: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.RemoteAddr = r.Header.Get("X-From")
				next.ServeHTTP(w, r)
			})
		}}, nil)
		c := h.Unchecked()
		c.Header = http.Header{}
		var got []bool
		for i, from := range []string{"192.0.2.1:1", "192.0.2.2:1", "192.0.2.1:1", "192.0.2.1:1", "192.0.2.2:1", "192.0.2.2:1"} {
			c.Header.Set("X-From", from)
			if i == 0 {
				c.Initialize(`{}`)
			}
			got = append(got, host.TurnedAway(c.Post(host.Call("1", "echo", `{"text":"x"}`))))
		}
		host.Equal(t, "refused", fmt.Sprint(got), "[false false false true false true]")
	})
}

// TestFullNodeStarvesNobody has one client keep the node full: another client that comes late, and heeds
// Retry-After, gets its share.
func TestFullNodeStarvesNobody(t *testing.T) {
	when.Long(t, "a crowd")
	kit.Bubble(t, func(t *testing.T) {
		m := host.NewMeter()
		h := host.New(t, troupe.Options{Shared: troupe.SharedLimits{CallsPerNode: 8, PrincipalRate: 1e6}, Limits: troupe.Limits{CallRate: 1e6}, Authenticate: host.User, Telemetry: troupe.Telemetry{MeterProvider: m}}, nil)
		stop := make(chan struct{})
		var greedy sync.WaitGroup
		for w := range 20 { // each goroutine begins a call anew as soon as it can
			c := host.As(h.Unchecked(), "ann").Initialize(`{}`)
			greedy.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					if a := c.Post(host.Call(fmt.Sprintf("%d", w*100000+i), "sleep", `{"ms":200}`)); host.TurnedAway(a) {
						time.Sleep(20 * time.Millisecond)
					}
				}
			})
		}
		most := int64(0)
		for range 100 {
			time.Sleep(7 * time.Millisecond)
			most = max(most, m.Count("troupe.calls.in_flight", ""))
		}
		if most < 8 { // a call that is being refused counts for a moment
			t.Errorf("alone, a client has up to %d calls in flight, want all 8 places", most)
		}
		bob := host.As(h.Unchecked(), "bob").Initialize(`{}`)
		passed, refused := 0, 0
		for passed < 20 && refused < 20 {
			switch a := bob.Post(host.Call("1", "sleep", `{"ms":100}`)); {
			case host.TurnedAway(a):
				refused++
				seconds, _ := strconv.Atoi(a.Header.Get("Retry-After"))
				time.Sleep(time.Duration(seconds) * time.Second)
			case a.StatusCode == 200:
				passed++
			default:
				t.Fatalf("%s %s", a.Status, a.Body)
			}
		}
		if passed < 20 || refused > 2 {
			t.Errorf("%d calls of the late client passed and %d were refused", passed, refused)
		}
		if m.Count("troupe.refusals", "node-share") == 0 {
			t.Error("nobody was told that he has his share")
		}
		close(stop)
		greedy.Wait()
	})
}

// TestRerunsAreNeverRefused has calls run again in a process whose limits have no room for them: they were
// admitted once.
func TestRerunsAreNeverRefused(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		h := host.New(t, troupe.Options{Dir: dir}, nil)
		c := h.Session()
		var primes []string
		for i := range 4 {
			a := c.Post(host.CallWith(strconv.Itoa(i), "count", `{"to":3,"delay_ms":20000}`, `"t"`))
			e, _ := a.Next()
			primes = append(primes, e.ID)
			defer a.Close()
		}
		m := host.NewMeter()
		_, again := host.Crashed(t, dir, troupe.Options{Telemetry: troupe.Telemetry{MeterProvider: m}, Limits: troupe.Limits{CallRate: 0.001, CallBurst: 1, CallsPerSession: 1}, Shared: troupe.SharedLimits{PrincipalRate: 0.001, PrincipalBurst: 4*5 + 1, CallsPerPrincipal: 1, CallsPerNode: 1}}, c)
		var resumed []func() []string
		for _, prime := range primes {
			resumed = append(resumed, host.Reading(again.Get(prime)))
		}
		synctest.Wait()
		if n := m.Count("troupe.calls.in_flight", ""); n != 4 {
			t.Errorf("%d calls run again, want all 4", n)
		}
		if a := again.Post(host.Call(`"x"`, "echo", `{"text":"x"}`)); !host.TurnedAway(a) {
			t.Errorf("a new call: %s %s", a.Status, a.Body)
		}
		for i, wait := range resumed {
			if got := wait(); len(got) == 0 || got[len(got)-1] != host.TextResult(strconv.Itoa(i), "counted to 3") {
				t.Errorf("call %d: got %q", i, got)
			}
		}
		host.Equal(t, "afterwards", again.Post(host.Call("1", "echo", `{"text":"x"}`)).Body, host.TextResult("1", "x"))
	})
}

// TestBatchesAndLimits checks that a batch is refused as a whole, and that the refusal costs nothing.
func TestBatchesAndLimits(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Limits: troupe.Limits{CallRate: 1, CallBurst: 3}}, nil)
		c := h.Unchecked().InitializeAs("2025-03-26", `{}`)
		four := []string{host.Call("1", "echo", `{"text":"x"}`), host.Call("2", "echo", `{"text":"x"}`), host.Call("3", "echo", `{"text":"x"}`), host.Call("4", "echo", `{"text":"x"}`)}
		no := func(id string) string {
			return host.Fault(id, host.Invalid, "too many calls per second in this session", `{"retryAfterMs":1000}`)
		}
		a := c.Post("[" + strings.Join(four, ",") + "]")
		if a.StatusCode != 200 {
			t.Errorf("four calls at once: %s", a.Status)
		}
		host.Equal(t, "body", a.Body, host.Batch(no("1"), no("2"), no("3"), no("4")))
		a = c.Post("[" + strings.Join(four[:3], ",") + "]")
		if a.StatusCode != 200 || strings.Count(a.Body, `"result"`) != 3 {
			t.Errorf("three at once: %s %s", a.Status, a.Body)
		}
		host.Equal(t, "one more", c.Post(four[0]).Body, no("1"))
	})
}

// TestLimitsOverSSE checks that bound sessions have the same limits.
func TestLimitsOverSSE(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		m := host.NewMeter()
		h := host.New(t, troupe.Options{Limits: troupe.Limits{CallRate: 1, CallBurst: 1}, Shared: troupe.SharedLimits{StreamsPerPrincipal: 1}, Telemetry: troupe.Telemetry{MeterProvider: m}}, nil)
		s := h.SSE()
		s.Handshake("2024-11-05", `{}`)
		host.Equal(t, "a call", s.Ask(host.Call("1", "echo", `{"text":"x"}`)), host.TextResult("1", "x"))
		host.Equal(t, "another", s.Ask(host.Call("2", "echo", `{"text":"x"}`)), host.Fault("2", host.Invalid, "too many calls per second in this session", `{"retryAfterMs":1000}`))
		time.Sleep(time.Second)
		host.Equal(t, "a second later", s.Ask(host.Call("2", "echo", `{"text":"x"}`)), host.TextResult("2", "x"))
		second := h.Unchecked()
		second.URL = strings.TrimSuffix(h.URL, "/mcp") + "/sse"
		if a := second.Do(http.MethodGet, ""); a.StatusCode != 429 {
			t.Errorf("another connection: %s %s", a.Status, a.Body)
		}
		if n := m.Count("troupe.refusals", "principal-streams"); n != 1 {
			t.Errorf("%d refusals are counted, want 1", n)
		}
		s.Stream.Close()
		time.Sleep(time.Minute)
		h.SSE()
	})
}

// TestTrustedProxies checks that clients behind a trusted proxy count separately, and that clients that only
// claim to be behind one count by their own address.
func TestTrustedProxies(t *testing.T) {
	for name, tt := range map[string]struct {
		trusted netip.Prefix
		want    string
	}{
		"the proxy is trusted": {netip.MustParsePrefix("127.0.0.0/8"), "[ok no ok no ok no]"},
		"it is another":        {netip.MustParsePrefix("192.0.2.0/24"), "[ok no no no no no]"},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				var seen []string
				h := host.New(t, troupe.Options{Shared: troupe.SharedLimits{PrincipalRate: 0.001, PrincipalBurst: 1}, HTTP: troupe.HTTPOptions{TrustedProxies: []netip.Prefix{tt.trusted}}, Middleware: func(next http.Handler) http.Handler {
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						seen = append(seen, r.RemoteAddr)
						next.ServeHTTP(w, r)
					})
				}}, nil)
				c := h.Unchecked().Initialize(`{}`)
				c.Header = http.Header{}
				var got []string
				for _, headers := range [][2]string{{"X-Forwarded-For", "192.0.2.1"}, {"Forwarded", "for=198.51.100.3, for=192.0.2.1"}, {"Forwarded", `for="[2001:db8::1]:80"`},
					{"X-Forwarded-For", "2001:db8::2"}, {"X-Forwarded-For", "unknown"}, {"X-Forwarded-For", "198.51.100.1, x"}} {
					outcome := "ok"
					if a := c.Post(host.Call("1", "echo", `{"text":"x"}`), headers[0], headers[1]); strings.Contains(a.Body, "too many calls per second from this client") {
						outcome = "no"
					}
					got = append(got, outcome)
				}
				host.Equal(t, "calls", fmt.Sprint(got), tt.want)
				if told := slices.Contains(seen, "192.0.2.1:0"); told != (name == "the proxy is trusted") {
					t.Errorf("the middleware sees %v", seen)
				}
			})
		})
	}
}
