package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// holdBudgets are the bytes that each waiting call or listener may take in heap and
// stacks, with its connection if it has one.
var holdBudgets = map[string]int64{"parked": 12 << 10, "listen": 5 << 10}

// maxKept is what each may leave behind: the runtime keeps the headers of goroutines
// for the next ones, and maps do not shrink. maxLeft is by how much those that come
// after them may make the process grow: the registry of actors is of 32,768 maps, each
// of which keeps its first 270 bytes, and garbage that was not collected yet counts. A
// call or a listener that is never let go of is several times that.
const (
	maxKept = 1200
	maxLeft = 600
)

// hold measures what the server keeps for many that wait: calls that have asked
// for input, or listeners with their connections. The server collects garbage
// eagerly meanwhile, so that the heap is what is live. They come and go twice. The
// error tells what is over its budget, or left behind.
//
//	go run ./bench/load hold parked|listen N
func hold(bin, what string, n int) error {
	check(os.Setenv("GOGC", "10"))
	p := startServer(func(addr string) []string {
		return []string{bin, "serve", "--memory", "--listen", addr, "--log-level", "error", "--drain-delay", "1ms", "--drain-wait", "1s", "--set", "max-ask=20s",
			"--set", "pending-per-principal=0", "--set", "streams-per-principal=0", "--set", "calls-per-principal=0", "--set", "connections-per-address=0",
			"--set", "call-rate=" + fmt.Sprint(beyondLoad), "--set", "principal-rate=" + fmt.Sprint(beyondLoad)}
	})
	defer p.stop()
	var open []net.Conn
	budget := holdBudgets[what]
	one := map[string]func(i int){
		"parked": func(i int) {
			body := statelessBody(i, "tools/call", `"name":"ask","arguments":{"question":"?"}`, `{"elicitation":{}}`)
			r, err := http.NewRequest(http.MethodPost, "http://"+p.addr+"/mcp", strings.NewReader(body))
			check(err)
			for k, v := range statelessHeader("tools/call", "ask") {
				r.Header[k] = v
			}
			resp, err := http.DefaultClient.Do(r)
			check(err)
			answer, err := io.ReadAll(resp.Body)
			check(err)
			check(resp.Body.Close())
			if !strings.Contains(string(answer), "input_required") {
				check(fmt.Errorf("%s %s", resp.Status, answer))
			}
		},
		"listen": func(i int) {
			c, err := net.Dial("tcp", p.addr)
			check(err)
			open = append(open, c)
			body := statelessBody(i, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`, `{}`)
			var b strings.Builder
			fmt.Fprintf(&b, "POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", p.addr, len(body))
			for k, v := range statelessHeader("subscriptions/listen", "") {
				fmt.Fprintf(&b, "%s: %s\r\n", k, v[0])
			}
			_, err = io.WriteString(c, b.String()+"\r\n"+body)
			check(err)
			for rd := bufio.NewReaderSize(c, 512); ; {
				line, err := rd.ReadString('\n')
				check(err)
				if strings.Contains(line, "acknowledged") {
					return
				}
			}
		},
	}[what]
	if one == nil {
		check(fmt.Errorf("hold parked or listen, not %q", what))
	}
	began := 0
	begin := func(n int) {
		for range n {
			one(began)
			began++
		}
	}
	end := func() (int64, error) {
		for _, c := range open {
			check(c.Close())
		}
		open = nil
		return p.atRest()
	}
	begin(50)
	rest, err := end()
	if err != nil {
		return err
	}
	var left [2]int64
	for round := range left {
		start := time.Now()
		begin(n)
		took := time.Since(start)
		time.Sleep(3 * time.Second)
		held := p.live()
		each := (held - rest) / int64(n)
		fmt.Printf("%s: %d held: %d bytes each in heap and stacks (%d -> %d), budget %d, begun at %.0f/s, rss %d MB\n",
			what, n, each, rest, held, budget, float64(n)/took.Seconds(), p.rss()>>20)
		if each > budget {
			return fmt.Errorf("%s: %d bytes each, over the budget of %d", what, each, budget)
		}
		after, err := end()
		if err != nil {
			return err
		}
		left[round] = (after - rest) / int64(n)
		fmt.Printf("%s: %d bytes each once they have ended\n", what, left[round])
		rest = after
	}
	if left[0] > maxKept || left[1] > maxLeft {
		return fmt.Errorf("%s: each leaves %d bytes, and each of the second round %d; the budgets are %d and %d", what, left[0], left[1], maxKept, maxLeft)
	}
	return nil
}

// atRest waits until nothing is held any more, and returns what is live then.
func (p *process) atRest() (int64, error) {
	for begin := time.Now(); ; time.Sleep(500 * time.Millisecond) {
		calls, listeners := p.metric(`troupe_actors{kind="request"}`), p.metric(`troupe_actors{kind="subscription"}`)
		if calls == "0" && listeners == "0" {
			break
		}
		if time.Since(begin) > time.Minute {
			return 0, fmt.Errorf("%s calls and %s listeners are left after %v", calls, listeners, time.Since(begin))
		}
	}
	time.Sleep(2 * time.Second) // connections end a moment later
	return p.live(), nil
}

func statelessBody(id int, method, params, capabilities string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientInfo":{"name":"load","version":"1"},"io.modelcontextprotocol/clientCapabilities":%s},%s}}`, id, method, capabilities, params)
}

func statelessHeader(method, name string) http.Header {
	h := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {method}}
	if name != "" {
		h["Mcp-Name"] = []string{name}
	}
	return h
}

// metric is the value of a metric as the server tells it, the labels included in the
// name.
func (p *process) metric(name string) string {
	resp, err := http.Get("http://" + p.addr + "/metrics")
	check(err)
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return value
		}
	}
	return "?"
}

// live is the least of what the heap and the stacks took in a second.
func (p *process) live() int64 {
	least := int64(0)
	for range 10 {
		sum := 0.0
		for _, name := range []string{"go_memstats_heap_alloc_bytes", "go_memstats_stack_inuse_bytes"} {
			v, err := strconv.ParseFloat(p.metric(name), 64)
			check(err)
			sum += v
		}
		if least == 0 || int64(sum) < least {
			least = int64(sum)
		}
		time.Sleep(100 * time.Millisecond)
	}
	return least
}
