package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

// What costs measures.
const (
	costStreams   = 50   // at once, here and by way of another node
	costEvents    = 400  // of each
	costListeners = 9000 // over all nodes
	costTold      = 5    // updates that all of them get
	costSessions  = 100_000
	costBytes     = 3_900_000
	costAtOnce    = 64
)

// costsReport is what a fleet costs.
type costsReport struct {
	Scenario string `json:"scenario"`
	Servers  int    `json:"nats_servers"`
	Nodes    int    `json:"nodes"`

	Here      *streamCost   `json:"streams_read_at_their_writer,omitempty"`
	Elsewhere *streamCost   `json:"streams_read_at_another_node,omitempty"`
	Listeners *listenCost   `json:"an_update_to_all_listeners,omitempty"`
	Sessions  *sessionsCost `json:"sessions,omitempty"`
	Writes    *writesCost   `json:"writes,omitempty"`
	Large     *largeCost    `json:"large_streams_resumed_at_the_nodes_left,omitempty"`
	Behind    *behindReport `json:"behind_stored_events,omitempty"`
}

// verdict judges nothing.
func (*costsReport) verdict() error { return nil }

// streamCost is what streams cost that clients come back to.
type streamCost struct {
	Streams  int     `json:"streams"`
	Events   int64   `json:"events"`
	First    latency `json:"resume_to_first_event_ms"`
	NodesCPU float64 `json:"cpu_us_per_event_of_the_nodes"`
	NATSCPU  float64 `json:"cpu_us_per_event_of_nats"`
}

type listenCost struct {
	Listeners int     `json:"listeners"`
	Latency   latency `json:"call_to_update_ms"`
	NodesCPU  float64 `json:"cpu_us_per_update_of_the_nodes"`
}

type sessionsCost struct {
	Sessions int     `json:"sessions"`
	Rate     float64 `json:"per_second"`
	RSS      []int64 `json:"rss_mib_of_each_node"`
	NodesCPU float64 `json:"cpu_us_per_session_of_the_nodes"`
	Other    string  `json:"at_another_node"`
}

type largeCost struct {
	Streams int     `json:"streams"`
	Bytes   int64   `json:"bytes"`
	Stored  float64 `json:"seconds_to_store"`
	Seconds float64 `json:"seconds_to_resume"`
	Refused int64   `json:"refused_and_tried_again"`
	RSS     []int64 `json:"most_rss_mib_of_each_node"`
}

// costs is what is measured.
type costs struct {
	o   options
	ctx context.Context
	f   *fleet // nil until a part needs it
}

// wants reports whether a part is to be measured. All are unless some are named, but those behind stored events only if there are to be any.
func (c *costs) wants(part string) bool {
	if len(c.o.parts) == 0 {
		return c.o.events > 0 || part != "behind" && part != "resume"
	}
	return slices.Contains(c.o.parts, part)
}

// runCosts measures a fleet without any harm, and at last with one node gone, and one node behind stored events.
func runCosts(ctx context.Context, o options) (*costsReport, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if slices.Equal(o.parts, []string{"large"}) {
		o.flags = append(o.flags, "--max-store", strconv.FormatInt(4*int64(o.streams)*costBytes, 10)) // one client has half of three quarters of it for events
	}
	o.nodes = 3
	c := &costs{o: o, ctx: ctx}
	r := &costsReport{Scenario: "costs", Servers: o.nats, Nodes: o.nodes}
	if c.wants("behind") || c.wants("resume") {
		if err := c.behind(r); err != nil {
			return r, err
		}
	}
	for _, part := range []struct {
		name string
		run  func(*costsReport) error
	}{{"attach", c.attach}, {"listen", c.listen}, {"sessions", c.sessions}, {"writes", c.writes}, {"large", c.large}} {
		if !c.wants(part.name) {
			continue
		}
		began := time.Now()
		if c.f == nil {
			f, _, err := startFleet(ctx, o)
			if err != nil {
				return nil, err
			}
			defer f.end()
			c.f = f
		}
		if err := part.run(r); err != nil {
			return r, fmt.Errorf("%s: %w", part.name, err)
		}
		fmt.Fprintf(o.log, "%s took %.0f s\n", part.name, time.Since(began).Seconds())
	}
	return r, nil
}

// connections returns connections from an address of its own: a node tells clients apart by that.
func (c *costs) connections(n int) connections {
	rt := client.NewTransport()
	rt.DialContext = (&net.Dialer{Timeout: 10 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, byte(2+n/250), byte(1+n%250))}}).DialContext
	return rt
}

// cpu is the processor time that the nodes and the NATS servers have taken.
func (c *costs) cpu() (nodes, nats time.Duration) {
	for _, p := range c.f.nodes {
		if p.cmd != nil {
			nodes += cpuOf(p.cmd.Process.Pid)
		}
	}
	for _, s := range c.f.nats.all {
		nats += cpuOf(s.cmd.Process.Pid)
	}
	return nodes, nats
}

// rss is what each node has in memory, in MiB.
func (c *costs) rss() (all []int64) {
	for _, p := range c.f.nodes {
		if p.cmd != nil {
			all = append(all, residentOf(p.cmd.Process.Pid)>>20)
		}
	}
	return all
}

// attach reads streams at the node that writes them, and then others at another one.
func (c *costs) attach(r *costsReport) (err error) {
	if r.Here, err = c.streams(0); err == nil {
		r.Elsewhere, err = c.streams(1)
	}
	return err
}

// streams has calls on the first node, whose clients lose their connections after the first event and come back to a node.
func (c *costs) streams(to int) (*streamCost, error) {
	s := &streamCost{Streams: costStreams}
	var mu sync.Mutex
	var first []time.Duration
	var events atomic.Int64
	nodes, nats := c.cpu()
	err := each(costStreams, costStreams, func(i int) error {
		rt := c.connections(i)
		defer rt.CloseIdleConnections()
		k := client.New(c.f.nodes[0].url(0), rt)
		if err := k.Initialize(c.ctx, `{}`); err != nil {
			return err
		}
		a, err := k.Call(c.ctx, "1", "tools/call", fmt.Sprintf(`{"name":"count","arguments":{"to":%d,"delay_ms":10}}`, costEvents))
		if err != nil || a.Events == nil {
			return fmt.Errorf("a call: %w %+v", err, a)
		}
		e, err := a.Events.Next()
		a.Close()
		if err != nil {
			return err
		}
		began := time.Now()
		if a, err = k.At(c.f.nodes[to].url(0)).Resume(c.ctx, e.ID); err != nil || a.Events == nil {
			return fmt.Errorf("a resume: %w %+v", err, a)
		}
		defer a.Close()
		for n := 0; ; n++ {
			e, err := a.Events.Next()
			if err != nil {
				return fmt.Errorf("after %d events: %w", n, err)
			}
			if n == 0 {
				mu.Lock()
				first = append(first, time.Since(began))
				mu.Unlock()
			}
			if m := parse(e.Data); m.answers("1") {
				if n != costEvents {
					return fmt.Errorf("%d events before the answer, want %d", n, costEvents)
				}
				events.Add(int64(n))
				return nil
			}
		}
	})
	nodes2, nats2 := c.cpu()
	s.Events, s.First = events.Load(), latencyOf(first)
	s.NodesCPU, s.NATSCPU = micros(nodes2-nodes, s.Events), micros(nats2-nats, s.Events)
	return s, err
}

func micros(d time.Duration, n int64) float64 { return float64(d.Microseconds()) / float64(max(n, 1)) }

// listen has clients all over the fleet listen to one resource, which changes.
func (c *costs) listen(r *costsReport) error {
	ctx, stop := context.WithCancel(c.ctx)
	defer stop()
	var told sync.WaitGroup
	var mu sync.Mutex
	var began time.Time
	var all []time.Duration
	const uri = "test://template/cost/data"
	err := each(costListeners, costAtOnce, func(i int) error {
		k := client.NewStateless(c.f.nodes[i%len(c.f.nodes)].url(0), c.connections(i/100), `{}`)
		a, err := k.Call(ctx, strconv.Itoa(i), "subscriptions/listen", `"notifications":{"resourceSubscriptions":["`+uri+`"]}`)
		if err != nil || a.Events == nil {
			return fmt.Errorf("listen: %w %+v", err, a)
		}
		if _, err := a.Events.Next(); err != nil {
			return err
		}
		go func() {
			defer a.Close()
			for range costTold {
				e, err := a.Events.Next()
				if err == nil && strings.Contains(e.Data, uri) {
					mu.Lock()
					all = append(all, time.Since(began))
					mu.Unlock()
				}
				told.Done()
			}
		}()
		return nil
	})
	if err != nil {
		return err
	}
	time.Sleep(time.Second)
	k := client.NewStateless(c.f.nodes[0].url(0), c.connections(200), `{}`)
	nodes, _ := c.cpu()
	told.Add(costTold * costListeners)
	for range costTold {
		mu.Lock()
		began = time.Now()
		before := len(all)
		mu.Unlock()
		if a, err := k.Call(ctx, "1", "tools/call", `"name":"touch","arguments":{"uri":"`+uri+`"}`); err != nil || a.Status != 200 {
			return fmt.Errorf("touch: %w %+v", err, a)
		}
		got := func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(all) >= before+costListeners
		}
		if !(&world{ctx: ctx}).until(got) {
			return fmt.Errorf("%d of %d listeners were told", len(all)-before, costListeners)
		}
		time.Sleep(500 * time.Millisecond)
	}
	nodes2, _ := c.cpu()
	r.Listeners = &listenCost{costListeners, latencyOf(all), micros(nodes2-nodes, costTold*costListeners)}
	return nil
}

// sessions begins many, a third at each node.
func (c *costs) sessions(r *costsReport) error {
	s := &sessionsCost{Sessions: costSessions}
	rts := make([]connections, 100)
	for i := range rts {
		rts[i] = c.connections(i)
	}
	last := make([]*client.Client, len(c.f.nodes))
	nodes, _ := c.cpu()
	began := time.Now()
	err := each(costSessions, costAtOnce, func(i int) error {
		k := client.New(c.f.nodes[i%len(c.f.nodes)].url(0), rts[i%len(rts)])
		if i >= costSessions-len(last) {
			last[i%len(last)] = k
		}
		for try := 0; ; try++ {
			err := k.Initialize(c.ctx, `{}`)
			if err == nil || try == 20 || c.ctx.Err() != nil {
				return err
			}
			time.Sleep(rand.N(500 * time.Millisecond))
		}
	})
	if err != nil {
		return err
	}
	s.Rate = costSessions / time.Since(began).Seconds()
	nodes2, _ := c.cpu()
	s.RSS, s.NodesCPU = c.rss(), micros(nodes2-nodes, costSessions)
	for i, k := range last {
		a, err := k.At(c.f.nodes[(i+1)%len(last)].url(0)).Call(c.ctx, "1", "ping", "")
		if err != nil || a.Status != 200 {
			return fmt.Errorf("a session at another node: %w %+v", err, a)
		}
	}
	s.Other = "served"
	for _, rt := range rts {
		rt.CloseIdleConnections()
	}
	r.Sessions = s
	return nil
}

// large stores many large streams at the first node, which then dies; all of them are resumed at once at the others.
func (c *costs) large(r *costsReport) error {
	s := &largeCost{Streams: c.o.streams, Bytes: int64(c.o.streams) * costBytes}
	question := strings.Repeat("x", costBytes)
	ids, all := make([]string, c.o.streams), make([]*client.Client, c.o.streams)
	began := time.Now()
	err := each(c.o.streams, 4, func(i int) error {
		rt := c.connections(i)
		defer rt.CloseIdleConnections()
		all[i] = client.New(c.f.nodes[0].url(0), rt)
		for try := 0; ; try++ {
			id, err := c.storeLarge(all[i], question)
			if ids[i] = id; err == nil || try == 60 || c.ctx.Err() != nil {
				return err
			}
			time.Sleep(time.Second)
		}
	})
	if err != nil {
		return err
	}
	s.Stored = time.Since(began).Seconds()
	if err := c.f.nodes[0].kill(); err != nil {
		return err
	}
	most := make([]int64, len(c.f.nodes)-1)
	watch, stop := context.WithCancel(c.ctx)
	defer stop()
	var watched sync.WaitGroup
	watched.Go(func() {
		for watch.Err() == nil {
			for i, mib := range c.rss() {
				most[i] = max(most[i], mib)
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	var refused atomic.Int64
	began = time.Now()
	err = each(c.o.streams, c.o.streams, func(i int) error {
		time.Sleep(rand.N(time.Second))
		for try := 0; ; try++ {
			err := c.whole(all[i].At(c.f.nodes[1+i%(len(c.f.nodes)-1)].url(0)), ids[i])
			if err == nil || time.Since(began) > 3*time.Minute || c.ctx.Err() != nil {
				return err
			}
			refused.Add(1)
			time.Sleep(500*time.Millisecond + rand.N(time.Second))
		}
	})
	s.Seconds, s.Refused = time.Since(began).Seconds(), refused.Load()
	stop()
	watched.Wait()
	s.RSS, r.Large = most, s
	return err
}

// storeLarge has a call ask a large question, and returns the id of the event before it. The call is cancelled.
func (c *costs) storeLarge(k *client.Client, question string) (string, error) {
	if k.Session() == "" {
		if err := k.Initialize(c.ctx, `{"elicitation":{}}`); err != nil {
			return "", err
		}
	}
	a, err := k.Call(c.ctx, `"1"`, "tools/call", `{"name":"ask","arguments":{"question":"`+question+`"}}`)
	if err != nil {
		return "", err
	}
	defer a.Close()
	if a.Events == nil {
		return "", fmt.Errorf("the call got %d %.200s", a.Status, a.Body)
	}
	first, err := a.Events.Next()
	if err != nil {
		return "", err
	}
	if e, err := a.Events.Next(); err != nil || len(e.Data) < costBytes {
		return "", fmt.Errorf("the question has %d bytes: %w", len(e.Data), err)
	}
	return first.ID, k.Notify(c.ctx, "notifications/cancelled", `{"requestId":"1"}`)
}

// whole resumes a large stream and reads it to its question.
func (c *costs) whole(k *client.Client, id string) error {
	ctx, stop := context.WithTimeout(c.ctx, 3*time.Minute)
	defer stop()
	a, err := k.Resume(ctx, id)
	if err != nil {
		return err
	}
	defer a.Close()
	if a.Events == nil {
		return fmt.Errorf("the resume got %d %.200s", a.Status, a.Body)
	}
	e, err := a.Events.Next()
	if err == nil && len(e.Data) < costBytes {
		err = fmt.Errorf("an event of %d bytes, want the question", len(e.Data))
	}
	return err
}
