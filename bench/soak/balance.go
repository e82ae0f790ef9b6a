package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

// balanceReport is what a rolling restart behind load balancers cost their clients.
type balanceReport struct {
	Scenario string                   `json:"scenario"`
	Seconds  float64                  `json:"seconds_each"`
	Clients  int                      `json:"clients"`
	Behind   map[string]balanceCounts `json:"behind"`
}

type balanceCounts struct {
	Restarts   int64   `json:"restarts"`
	Calls      int64   `json:"calls"`
	Streams    int64   `json:"streams"`
	Resumes    int64   `json:"streams_that_broke_and_went_on"`
	Failures   int64   `json:"failures"`
	First      string  `json:"first_failure,omitempty"`
	Slowest    float64 `json:"slowest_call_ms"`
	GoneMillis float64 `json:"longest_time_without_the_process_ms"`
}

// runBalance restarts two processes in turn behind nginx and then behind HAProxy, in
// the configuration that deploy has. Its clients try nothing again but a stream that
// broke. It fails when one of them gets anything but its answer.
func runBalance(ctx context.Context, o options) (*balanceReport, error) {
	report := &balanceReport{Scenario: "balance", Seconds: o.time.Seconds(), Clients: o.clients, Behind: make(map[string]balanceCounts)}
	var failed error
	for i, name := range []string{"nginx", "haproxy"} {
		b, err := newBalanced(ctx, o, name, uint64(i))
		if err != nil {
			return nil, err
		}
		err = b.run(o)
		report.Behind[name] = b.counts()
		b.end()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if n := b.failures.Load(); n > 0 {
			failed = errors.Join(failed, fmt.Errorf("behind %s %d of %d calls failed, first %s; the proxy said:\n%s", name, n, b.calls.Load(), b.first.Load(), b.said.lines(40)))
		}
		fmt.Fprintf(o.log, "%s: %+v\n", name, b.counts())
	}
	return report, failed
}

// balanced is two processes behind a proxy.
type balanced struct {
	ctx       context.Context
	stop      context.CancelFunc
	processes []*process
	ready     bool // a process that was started counts once it is ready, not when it listens
	proxy     *exec.Cmd
	said      logTail
	url       string

	calls, streams, resumes, restarts, failures atomic.Int64
	slowest, gone                               atomic.Int64 // nanoseconds
	first                                       atomic.Value
}

// repositoryFile finds a file of the repository from wherever in it this runs.
func repositoryFile(name string) (string, error) {
	dir, err := os.Getwd()
	for ; err == nil && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if path := filepath.Join(dir, name); fileExists(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not here: run this inside of the repository", name)
}

func fileExists(path string) bool { _, err := os.Stat(path); return err == nil }

func newBalanced(ctx context.Context, o options, name string, n uint64) (*balanced, error) {
	dir := filepath.Join(o.data, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	b := &balanced{}
	b.ctx, b.stop = context.WithCancel(ctx)
	front, err := freeAddress(o.seed + 100*n + 7000)
	if err != nil {
		return nil, err
	}
	b.url = "http://" + front + "/mcp"
	port := func(addr string) string { return addr[strings.LastIndexByte(addr, ':'):] }
	pause, err := freeAddress(o.seed + 100*n + 9000) // of nginx.conf alone
	if err != nil {
		return nil, err
	}
	ports := []string{":8080", port(front), ":8079", port(pause)}
	for i := range 2 {
		p, err := newProcess(o.bin, filepath.Join(dir, fmt.Sprint(i)), o.seed+100*n+uint64(i)*31+3000, append([]string{"--trusted-proxy", "127.0.0.0/8"}, o.flags...)...)
		if err != nil {
			return nil, err
		}
		if err := p.start(); err != nil {
			return nil, err
		}
		b.processes = append(b.processes, p)
		ports = append(ports, fmt.Sprintf(":%d", 8081+i), port(p.addr))
		if err := b.serves(p); err != nil {
			b.end()
			return nil, err
		}
	}
	file := map[string]string{"nginx": "nginx.conf", "haproxy": "haproxy.cfg"}[name]
	if err := b.startProxy(name, file, dir, strings.NewReplacer(ports...)); err != nil {
		b.end()
		return nil, fmt.Errorf("%w: %s", err, b.said.lines(5))
	}
	return b, nil
}

// startProxy starts nginx or HAProxy with a file of deploy, on other ports.
func (b *balanced) startProxy(name, file, dir string, ports *strings.Replacer) error {
	from, err := repositoryFile(filepath.Join("deploy", file))
	if err != nil {
		return err
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	config := filepath.Join(dir, file)
	if err := os.WriteFile(config, []byte(ports.Replace(string(text))), 0o644); err != nil {
		return err
	}
	bin, err := exec.LookPath(name)
	if err != nil {
		if bin, err = exec.LookPath("/usr/sbin/" + name); err != nil {
			return fmt.Errorf("%s is not installed: apt-get install %s", name, name)
		}
	}
	if name == "nginx" {
		b.proxy = exec.Command(bin, "-e", "stderr", "-p", dir, "-c", config, "-g", "daemon off;")
	} else {
		b.proxy = exec.Command(bin, "-db", "-f", config)
	}
	b.proxy.Stderr, b.proxy.Stdout = &b.said, &b.said
	if err := b.proxy.Start(); err != nil {
		return err
	}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(b.url, "http://"), "/mcp")); err == nil {
			return c.Close()
		}
	}
	return errors.New(name + " does not listen")
}

// serves waits until a process listens, or is ready.
func (b *balanced) serves(p *process) error {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if b.ready {
			if (&world{p: p}).ready() {
				return nil
			}
			continue
		}
		if c, err := net.Dial("tcp", p.addr); err == nil {
			return c.Close()
		}
	}
	return errors.New("troupe does not listen: " + p.log.lines(20))
}

func (b *balanced) end() {
	b.stop()
	for _, p := range b.processes {
		if p != nil {
			_ = p.kill()
		}
	}
	if b.proxy != nil && b.proxy.Process != nil {
		_ = b.proxy.Process.Signal(syscall.SIGTERM) // to nginx and its workers
		_ = b.proxy.Wait()
	}
}

func (b *balanced) counts() balanceCounts {
	first, _ := b.first.Load().(string)
	return balanceCounts{b.restarts.Load(), b.calls.Load(), b.streams.Load(), b.resumes.Load(), b.failures.Load(), first,
		float64(b.slowest.Load()) / 1e6, float64(b.gone.Load()) / 1e6}
}

func (b *balanced) run(o options) error {
	over := time.Now().Add(o.time)
	var clients sync.WaitGroup
	for n := range o.clients {
		// Proxies tell clients apart by their addresses.
		rt := client.NewTransport()
		rt.DialContext = (&net.Dialer{Timeout: 10 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(n+1))}}).DialContext
		defer rt.CloseIdleConnections()
		clients.Go(func() {
			rng := rand.New(rand.NewPCG(o.seed, uint64(n)))
			if n%3 == 2 {
				b.visits(rt, rng, over)
			} else {
				b.stays(rt, rng, over)
			}
		})
	}
	err := b.roll(over)
	clients.Wait()
	return err
}

// roll restarts the processes in turn as long as there is time.
func (b *balanced) roll(over time.Time) error {
	for i := 0; ; i = (i + 1) % len(b.processes) {
		time.Sleep(time.Second)
		if time.Until(over) < 6*time.Second && b.restarts.Load() >= int64(len(b.processes)) {
			return nil
		}
		p := b.processes[i]
		if err := p.signal(syscall.SIGTERM); err != nil {
			return err
		}
		refuses := time.Time{}
		select {
		case err := <-p.exited:
			if err != nil {
				return fmt.Errorf("troupe ended with %w: %s", err, p.log.lines(20))
			}
			refuses = time.Now()
		case <-time.After(patience + 10*time.Second):
			return errors.New("troupe does not end: " + p.log.lines(20))
		}
		if err := p.start(); err != nil {
			return err
		}
		if err := b.serves(p); err != nil {
			return err
		}
		raise(&b.gone, time.Since(refuses))
		b.restarts.Add(1)
	}
}

func raise(v *atomic.Int64, d time.Duration) {
	for old := v.Load(); int64(d) > old && !v.CompareAndSwap(old, int64(d)); old = v.Load() {
	}
}

// failed notes what a client must not see.
func (b *balanced) failed(format string, args ...any) {
	if b.failures.Add(1) == 1 {
		b.first.Store(fmt.Sprintf(format, args...))
	}
}

// visits is a client without a session.
func (b *balanced) visits(rt *http.Transport, rng *rand.Rand, over time.Time) {
	c := client.NewStateless(b.url, rt, `{}`)
	for i := 1; time.Now().Before(over); i++ {
		id, began, tool := fmt.Sprint(i), time.Now(), `"name":"echo","arguments":{"text":"here"}`
		want := `"text":"here"`
		if i%4 == 0 {
			tool, want = `"name":"count","arguments":{"to":10,"delay_ms":50}`, `"text":"counted to 10"`
		}
		b.calls.Add(1)
		a, err := c.Call(b.ctx, id, "tools/call", tool)
		if err != nil {
			b.failed("a request without a session: %v", err)
			continue
		}
		text := string(a.Body)
		if a.Events != nil {
			b.streams.Add(1)
			for {
				e, err := a.Events.Next()
				if err != nil {
					break
				}
				text = e.Data
			}
			a.Close()
		} else {
			raise(&b.slowest, time.Since(began))
		}
		if a.Status != http.StatusOK || !strings.Contains(text, want) {
			b.failed("a request without a session: %d %s", a.Status, text)
		}
		time.Sleep(time.Duration(rng.IntN(40)) * time.Millisecond)
	}
}

// stays is a client with a session, and now and then with another one.
func (b *balanced) stays(rt *http.Transport, rng *rand.Rand, over time.Time) {
	c := client.New(b.url, rt)
	if err := c.Initialize(b.ctx, `{}`); err != nil {
		b.failed("initialize: %v", err)
		return
	}
	for i := 1; time.Now().Before(over); i++ {
		switch {
		case i%12 == 0:
			other := client.New(b.url, rt)
			b.calls.Add(1)
			if err := other.Initialize(b.ctx, `{}`); err != nil {
				b.failed("a further initialize: %v", err)
				continue
			}
			b.echo(other, "1")
			if a, err := other.Delete(b.ctx); err != nil || a.Status != http.StatusOK {
				b.failed("DELETE: %v %+v", err, a)
			}
		case i%5 == 0:
			b.count(c, fmt.Sprint(i), 10+rng.IntN(20))
		default:
			b.echo(c, fmt.Sprint(i))
		}
		time.Sleep(time.Duration(rng.IntN(40)) * time.Millisecond)
	}
}

func (b *balanced) echo(c *client.Client, id string) {
	b.calls.Add(1)
	began := time.Now()
	a, err := c.Call(b.ctx, id, "tools/call", `{"name":"echo","arguments":{"text":"here"}}`)
	if err != nil {
		b.failed("a call: %v", err)
		return
	}
	defer a.Close()
	text := string(a.Body)
	if a.Events != nil { // a slow machine makes a stream of it
		text = b.follow(c, a, id)
	}
	raise(&b.slowest, time.Since(began))
	if a.Status != http.StatusOK || !strings.Contains(text, `"text":"here"`) {
		b.failed("a call: %d %s", a.Status, text)
	}
}

// count has a stream of events, of which none may be missing.
func (b *balanced) count(c *client.Client, id string, to int) {
	b.calls.Add(1)
	b.streams.Add(1)
	a, err := c.Call(b.ctx, id, "tools/call", fmt.Sprintf(`{"name":"count","arguments":{"to":%d,"delay_ms":100},"_meta":{"progressToken":%s}}`, to, id))
	if err != nil || a.Events == nil {
		b.failed("a call with a stream: %v %+v", err, a)
		return
	}
	b.follow(c, a, id)
}

// follow reads a call's stream over all of its connections to the answer, which it
// returns.
func (b *balanced) follow(c *client.Client, a *client.Answer, id string) string {
	last, progress, logs := "", 0, 0
	for end := time.Now().Add(patience); ; {
		e, err := a.Events.Next()
		if err == nil {
			if last = e.ID; e.Data == "" {
				continue
			}
			switch m := parse(e.Data); {
			case m.answers(id):
				a.Close()
				if progress > 0 && progress != m.counted() {
					b.failed("%d notifications of progress before %s", progress, e.Data)
				}
				return e.Data
			case m.Method == "notifications/progress":
				if progress++; m.Params.Progress != progress {
					b.failed("progress %d in place of %d", m.Params.Progress, progress)
				}
			default:
				logs++
			}
			continue
		}
		a.Close()
		for { // the one thing that is tried again
			if last == "" || time.Now().After(end) || b.ctx.Err() != nil {
				b.failed("a stream after %q, %d of progress: %v", last, progress, err)
				return ""
			}
			time.Sleep(300 * time.Millisecond)
			b.resumes.Add(1)
			if a, err = c.Resume(b.ctx, last); err == nil && a.Events != nil {
				break
			}
			if err == nil {
				err = fmt.Errorf("%d %s", a.Status, a.Body)
			}
		}
	}
}

// counted is how far the answer says that its call has counted.
func (m *message) counted() (to int) {
	if m.Result != nil && len(m.Result.Content) == 1 {
		_, _ = fmt.Sscanf(m.Result.Content[0].Text, "counted to %d", &to)
	}
	return to
}
