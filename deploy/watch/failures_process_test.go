//go:build full && linux

package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/troupe-run/troupe/test/kit"
)

// A failure is made in the world, and mended by what make returns. Until then the alert of the job fires, and no other.
type failure struct {
	alert, job string
	make       func(t *testing.T, w *world) (mend func())
}

// failures are those that can be made on one machine: all that there are alerts for. Clocks that differ, and a disk that is broken and not full, would be
// others. They follow each other so that none makes the next one's alert fire by what it leaves behind.
var failures = []failure{
	{"TroupeCertificateEnding", "single", endCertificate},
	{"TroupeTelemetryDropped", "single", refuseTelemetry},
	{"TroupeStoreFilling", "single", fillStore},
	{"TroupeStoreFailed", "single", fillDisk},
	{"TroupeAllAway", "single", func(t *testing.T, w *world) func() { return killed(t, w.single) }},
	{"TroupeSlowReaders", "loose", readNothing},
	{"TroupeNodeFull", "loose", fillNode},
	{"TroupeClientsRefused", "loose", callTooOften},
	{"TroupeMemoryFilling", "loose", fillMemory},
	{"TroupePanics", "fleet", panicOnce},
	{"TroupeTakeovers", "fleet", loseWriter},
	{"TroupeDrainOverdue", "fleet", drainLong},
	{"TroupeNodeAway", "fleet", func(t *testing.T, w *world) func() { return killed(t, w.c) }},
	{"TroupeReplicasMissing", "fleet", func(t *testing.T, w *world) func() { return killed(t, w.nats[2]) }},
	{"TroupeAppendsSlow", "fleet", slowAppends},
	{"TroupeAppendsFailing", "fleet", refuseAppends},
	{"TroupeStoreLost", "fleet", loseStream},
	{"TroupeLeaseSuspended", "fleet", stopNATS},
	{"TroupeAvailabilityBurnsFast", "fleet", failOften},
	{"TroupeAvailabilityBurnsSlowly", "fleet", failSeldom},
	{"TroupeLatencyBurnsFast", "fleet", sleepOften},
	{"TroupeLatencyBurnsSlowly", "fleet", sleepSeldom},
}

// TestFailures makes each failure while Prometheus reads real processes with the rules that are shipped, in which times are shorter. Its alert fires, no
// other one does, and it resolves once the failure is mended.
func TestFailures(t *testing.T) {
	w := newWorld(t)
	for _, name := range alerts(t) {
		found := false
		for _, f := range failures {
			found = found || f.alert == name
		}
		if !found {
			t.Errorf("no failure is made for %s", name)
		}
	}
	for _, f := range failures {
		t.Run(f.alert, func(t *testing.T) {
			w.quiet(t)
			want := f.alert + " of " + f.job
			began := time.Now()
			mend := sync.OnceFunc(f.make(t, w))
			defer mend() // after another failure, too, which would be hidden by what goes on
			w.until(t, want+" fires", want, func(now map[string]string) bool { _, fires := now[want]; return fires })
			fired := time.Now()
			mend()
			w.until(t, want+" resolves", want, func(now map[string]string) bool { _, fires := now[want]; return !fires })
			t.Logf("it fired after %v, and resolved %v later", fired.Sub(began).Round(time.Second), time.Since(fired).Round(time.Second))
		})
	}
}

// talk shows what is waited for.
var talk = flag.Bool("talk", false, "say twice a second which alerts fire")

// until waits until the alerts are as they should be. Meanwhile none fires but allowed.
func (w *world) until(t *testing.T, what, allowed string, reached func(now map[string]string) bool) {
	t.Helper()
	for late := time.Now().Add(hung); ; {
		now := firing(t, w.prometheus)
		for name, says := range now {
			if name != allowed && !strings.HasSuffix(name, ", pending") {
				t.Fatalf("while it is waited until %s, another alert fires: %s: %s", what, name, says)
			}
		}
		if reached(now) {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("it is not so that %s: %v", what, now)
		}
		if *talk {
			t.Log(what, now)
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// quiet waits until no alert fires or is about to, after what was before.
func (w *world) quiet(t *testing.T) {
	t.Helper()
	for late := time.Now().Add(hung); ; {
		now := firing(t, w.prometheus)
		if len(now) == 0 && values(t, w.prometheus, "job:troupe_requests:rate5m > 0", time.Now().Add(-5*time.Second)) > 0 {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("it does not get quiet: %v", now)
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// killed kills a process, which is started again to mend it.
func killed(t *testing.T, p *process) (mend func()) {
	p.kill(t)
	return func() { p.start(t) }
}

func endCertificate(t *testing.T, w *world) (mend func()) {
	w.cert.write(t, time.Hour)
	return func() { w.cert.write(t, 90*24*time.Hour) }
}

func refuseTelemetry(_ *testing.T, w *world) (mend func()) {
	w.collector.refuses.Store(true)
	return func() { w.collector.refuses.Store(false) }
}

// fillStore begins sessions of many clients, with much to store, until most of the room for sessions is in use.
func fillStore(t *testing.T, w *world) (mend func()) {
	pad := strings.Repeat("x", 6000)
	var begun []*caller
	for n := 0; ; n++ {
		if n%20 == 0 {
			used, budget := metric(t, w.single, "troupe_store_used_bytes", `budget="sessions"`), metric(t, w.single, "troupe_store_budget_bytes", `budget="sessions"`)
			if used > 0.84*budget {
				break
			}
			if n > 5000 {
				t.Fatalf("%d sessions take %.0f bytes of %.0f", n, used, budget)
			}
		}
		c := &caller{to: w.single, tls: true, address: fmt.Sprintf("10.0.%d.%d", n%4, n%250)} // nobody has more than a share
		if err := c.beginWith(t.Context(), `"experimental":{"x":{"pad":"`+pad+`"}}`); err != nil {
			t.Fatalf("session %d: %v; %.0f of %.0f bytes are in use, %.0f of one client", n, err, metric(t, w.single, "troupe_store_used_bytes", `budget="sessions"`), metric(t, w.single, "troupe_store_budget_bytes", `budget="sessions"`), metric(t, w.single, "troupe_store_used_most_bytes", `budget="sessions"`))
		}
		begun = append(begun, c)
	}
	return func() {
		for _, c := range begun {
			if status, body, err := readAll(c.send(t.Context(), "DELETE", "")); err != nil || status >= 300 {
				t.Fatalf("DELETE: %d %s, %v", status, body, err)
			}
		}
	}
}

// fillDisk takes what room the disk has, while a call appends, as nothing fails of which nothing is written.
func fillDisk(t *testing.T, w *world) (mend func()) {
	w.ofSingle.rate.Store(0)
	c := (&caller{to: w.single, tls: true}).started(t)
	ctx, stop := context.WithCancel(context.Background())
	resp, err := c.call(ctx, 1, "count", `{"to":100000,"delay_ms":50}`, "")
	if err != nil {
		stop()
		t.Fatal(err)
	}
	go events(resp, func(string, string) bool { return true })
	free := kit.FillDisk(t, w.disk)
	return func() {
		free()
		stop()
		w.ofSingle.rate.Store(singleRate)
	}
}

// readNothing has clients open streams, to which much is sent, and not read them.
func readNothing(t *testing.T, w *world) (mend func()) {
	ctx, stop := context.WithCancel(context.Background())
	var all []*caller
	for i := range 14 {
		c := (&caller{to: w.loose, address: fmt.Sprintf("10.0.1.%d", i)}).started(t)
		resp, err := c.send(ctx, "GET", "") // whose body nobody reads
		if err != nil || resp.StatusCode != http.StatusOK {
			stop()
			t.Fatalf("GET: %v, %v", resp, err)
		}
		go func() { // the response comes when it has ticked, or the session ends
			_, _, _ = readAll(c.call(ctx, 1, "tick", `{"n":20000,"every_ms":0}`, ""))
		}()
		all = append(all, c)
	}
	return func() {
		for _, c := range all {
			_, _, _ = readAll(c.send(context.Background(), "DELETE", ""))
		}
		stop()
	}
}

// fillNode has a task run where one is allowed, and asks for another one every few seconds.
func fillNode(t *testing.T, w *world) (mend func()) {
	c := (&caller{to: w.loose, address: "10.0.2.1"}).started(t)
	begin := func(ctx context.Context) (string, error) {
		_, body, err := readAll(c.call(ctx, 1, "job", `{"steps":60,"step_ms":1000}`, `,"task":{"ttl":120000}`))
		return body, err
	}
	if body, err := begin(t.Context()); err != nil || !strings.Contains(body, `"taskId"`) {
		t.Fatalf("the first task: %s, %v", body, err)
	}
	return repeatedly(4*time.Second, func(ctx context.Context, _ int) {
		if body, err := begin(ctx); err == nil && !strings.Contains(body, "-32603") {
			t.Errorf("another task: %s", body)
		}
	})
}

func callTooOften(t *testing.T, w *world) (mend func()) {
	c := (&caller{to: w.loose, address: "10.0.3.1"}).started(t)
	return repeatedly(2*time.Millisecond, func(ctx context.Context, n int) {
		_, _, _ = readAll(c.call(ctx, n, "echo", `{"text":"x"}`, ""))
	})
}

// fillMemory begins many sessions, which stay in memory for a minute.
func fillMemory(t *testing.T, w *world) (mend func()) {
	for n := 0; metric(t, w.loose, "troupe_memory_held_bytes", "") < 0.85*metric(t, w.loose, "troupe_memory_budget_bytes", ""); n++ {
		if n > 200 {
			t.Fatal("many sessions do not fill the memory")
		}
		for i := range 100 {
			c := &caller{to: w.loose, address: fmt.Sprintf("10.1.%d.%d", n%50, i)}
			if err := c.begin(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	return func() {}
}

func panicOnce(t *testing.T, w *world) (mend func()) {
	if _, body, err := w.onD.tool(t.Context(), "fault", `{"how":"panic"}`); err != nil || !strings.Contains(body, "-32603") {
		t.Errorf("a panic: %s, %v", body, err)
	}
	return func() {}
}

// loseWriter kills a node that writes a stream, starts it again, and has the client come back to another one.
func loseWriter(t *testing.T, w *world) (mend func()) {
	c := (&caller{to: w.c}).started(t)
	resp, err := c.call(t.Context(), 1, "count", `{"to":100000,"delay_ms":100}`, "")
	if err != nil {
		t.Fatal(err)
	}
	last := ""
	events(resp, func(id, _ string) bool { last = id; return last == "" })
	if last == "" {
		t.Fatal("no event has an id")
	}
	w.c.kill(t)
	w.c.start(t)
	c.to = w.b
	resp, err = c.send(t.Context(), "GET", "", "Last-Event-ID", last)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("it cannot be resumed: %v, %v", resp, err)
	}
	events(resp, func(string, string) bool { return false })
	return func() { _, _, _ = readAll(c.send(context.Background(), "DELETE", "")) }
}

// drainLong drains a node that has a call which no other process can go on with.
func drainLong(t *testing.T, w *world) (mend func()) {
	c := (&caller{to: w.c}).started(t)
	go func() { _, _, _ = readAll(c.call(context.Background(), 1, "ask_once", `{"question":"x"}`, "")) }() // which nobody answers
	for end := time.Now().Add(hung); metric(t, w.c, "troupe_calls_in_flight", "") == 0 && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
	}
	w.c.signal(t, syscall.SIGTERM)
	return func() {
		<-w.c.ended
		w.c.start(t)
	}
}

// slowAppends has the NATS servers stand still for most of the time: for so long that an append takes more than 100 ms on average, though each caller
// has but one that waits and some quick ones after it. In between they have the time to catch up with one another, or replicas would be missing.
func slowAppends(t *testing.T, w *world) (mend func()) {
	c := (&caller{to: w.a}).started(t)
	ctx, cancel := context.WithCancel(context.Background())
	resp, err := c.call(ctx, 1, "count", `{"to":100000,"delay_ms":500}`, "")
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	go events(resp, func(string, string) bool { return true })
	stop := repeatedly(400*time.Millisecond, func(ctx context.Context, _ int) {
		w.natsSignal(t, syscall.SIGSTOP)
		ago(ctx, 900*time.Millisecond)
		w.natsSignal(t, syscall.SIGCONT)
	})
	return func() {
		stop()
		_, _, _ = readAll(c.send(context.Background(), "DELETE", ""))
		cancel()
	}
}

// refuseAppends sets another limit for messages of events every other second, as somebody who administers the servers may. Streams that
// have begun in between break at their next event.
func refuseAppends(t *testing.T, w *world) (mend func()) {
	nc := connect(t, w)
	before := map[string]any{}
	for _, name := range streamNames(t, nc, "events") {
		before[name] = streamConfig(t, nc, name)["max_msg_size"]
	}
	limit := func(size any) { // nil is what it was
		for name, was := range before {
			config := streamConfig(t, nc, name)
			if config["max_msg_size"] = size; size == nil {
				config["max_msg_size"] = was
			}
			natsRequest(t, nc, "STREAM.UPDATE."+name, config)
		}
	}
	c := (&caller{to: w.a}).started(t)
	stop := repeatedly(0, func(ctx context.Context, n int) {
		limit(nil)
		for i := range 3 {
			resp, err := c.call(ctx, 10+3*n+i, "count", `{"to":100000,"delay_ms":300}`, "")
			if err == nil {
				go events(resp, func(string, string) bool { return true })
			}
		}
		ago(ctx, time.Second)
		limit(16)
		ago(ctx, time.Second)
	})
	return func() {
		stop()
		limit(nil)
		_, _, _ = readAll(c.send(context.Background(), "DELETE", ""))
	}
}

// loseStream deletes the stream of tasks, which nobody has.
func loseStream(t *testing.T, w *world) (mend func()) {
	nc := connect(t, w)
	for _, name := range streamNames(t, nc, "tasks") {
		natsRequest(t, nc, "STREAM.DELETE."+name, nil)
	}
	return func() {}
}

func stopNATS(t *testing.T, w *world) (mend func()) {
	w.ofFleet.rate.Store(0) // or requests are turned away, which is an alert of its own
	w.natsSignal(t, syscall.SIGSTOP)
	return func() {
		w.natsSignal(t, syscall.SIGCONT)
		time.Sleep(15 * time.Second) // until the nodes have their leases
		w.ofFleet.rate.Store(fleetRate)
	}
}

// fault has the tool of bench/lab fail again and again.
func (w *world) fault(every time.Duration) (mend func()) {
	return repeatedly(every, func(ctx context.Context, _ int) { _, _, _ = w.onD.tool(ctx, "fault", `{"how":"error"}`) })
}

func failOften(_ *testing.T, w *world) (mend func())  { return w.fault(50 * time.Millisecond) }
func failSeldom(_ *testing.T, w *world) (mend func()) { return w.fault(2500 * time.Millisecond) } // one of 250

// sleep has so many calls at a time take longer than ten seconds, beside others at a rate.
func (w *world) sleep(calls int, rate int64) (mend func()) {
	w.ofFleet.rate.Store(rate)
	var all []func()
	for i := range calls {
		all = append(all, repeatedly(0, func(ctx context.Context, n int) {
			if n == 0 && !ago(ctx, time.Duration(i)*11*time.Second/time.Duration(calls)) { // so that they do not end together
				return
			}
			_, _, _ = w.onA.tool(ctx, "sleep", `{"ms":10500}`)
		}))
	}
	return func() {
		var over sync.WaitGroup
		for _, stop := range all {
			over.Go(stop)
		}
		over.Wait()
		w.ofFleet.rate.Store(fleetRate)
	}
}

func sleepOften(_ *testing.T, w *world) (mend func())  { return w.sleep(24, 1) }
func sleepSeldom(_ *testing.T, w *world) (mend func()) { return w.sleep(18, 40) } // one of 25

// connect connects to the NATS servers as who administers them.
func connect(t *testing.T, w *world) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(w.natsURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// natsRequest makes a request of JetStream's API, and returns the answer.
func natsRequest(t *testing.T, nc *nats.Conn, what string, params any) (answer map[string]any) {
	t.Helper()
	var body []byte
	if params != nil {
		var err error
		if body, err = json.Marshal(params); err != nil {
			t.Fatal(err)
		}
	}
	m, err := nc.Request("$JS.API."+what, body, 10*time.Second)
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return nil
	}
	d := json.NewDecoder(strings.NewReader(string(m.Data)))
	d.UseNumber() // sizes have more digits than a float64
	if err := d.Decode(&answer); err != nil || answer["error"] != nil {
		t.Errorf("%s: %s, %v", what, m.Data, err)
	}
	return answer
}

// streamNames are those of the streams with a part in their names.
func streamNames(t *testing.T, nc *nats.Conn, part string) (names []string) {
	t.Helper()
	all, _ := natsRequest(t, nc, "STREAM.NAMES", struct{}{})["streams"].([]any)
	for _, name := range all {
		if name, ok := name.(string); ok && strings.Contains(name, part) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		t.Fatalf("no stream of %v is one of %s", all, part)
	}
	return names
}

// streamConfig is the configuration of a stream.
func streamConfig(t *testing.T, nc *nats.Conn, stream string) map[string]any {
	t.Helper()
	config, ok := natsRequest(t, nc, "STREAM.INFO."+stream, nil)["config"].(map[string]any)
	if !ok {
		t.Errorf("the stream %s has no configuration", stream)
		return map[string]any{}
	}
	return config
}
