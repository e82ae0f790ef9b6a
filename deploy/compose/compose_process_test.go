//go:build linux

package compose

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// makeKey makes an API key as README.md says.
func (s *stack) makeKey(service string) string {
	s.t.Helper()
	out, err := s.exec(service, "troupe", "keys", "create", "--name", "test", "--json")
	var key struct{ Secret string }
	if err == nil {
		err = json.Unmarshal([]byte(out), &key)
	}
	if err != nil || key.Secret == "" {
		s.t.Fatalf("the key is %q: %v", out, err)
	}
	return key.Secret
}

// mustCall calls a tool through a published port as README.md says.
func (s *stack) mustCall(address, key string) {
	s.t.Helper()
	cmd := exec.Command(s.programs["troupe"], "call", "http://"+address+"/mcp", "echo", `{"text":"hello"}`)
	cmd.Env = append(os.Environ(), "TROUPE_TOKEN="+key)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "hello") {
		s.t.Fatalf("a call through %s: %v\n%s", address, err, out)
	}
}

// session is a client of 2025-11-25.
type session struct{ url, key, id string }

func (c *session) post(body string) (status int, text string, err error) {
	r, err := http.NewRequest(http.MethodPost, c.url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer "+c.key)
	if c.id != "" {
		r.Header.Set("Mcp-Session-Id", c.id)
		r.Header.Set("MCP-Protocol-Version", "2025-11-25")
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		c.id = id
	}
	said, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(said), err
}

func begin(t *testing.T, address, key string) *session {
	t.Helper()
	c := &session{url: "http://" + address + "/mcp", key: key}
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
	} {
		if status, said, err := c.post(body); err != nil || status >= 300 || c.id == "" {
			t.Fatalf("it begins with %d %s: %v", status, said, err)
		}
	}
	return c
}

// mustEcho calls in the session.
func (c *session) mustEcho(t *testing.T, when string) {
	t.Helper()
	status, said, err := c.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"still here"}}}`)
	if err != nil || status != http.StatusOK || !strings.Contains(said, `"text":"still here"`) {
		t.Fatalf("%s: %d %s, %v", when, status, said, err)
	}
}

// TestSettings reads the settings of each node from its environment: they count, and the time in which it may end is that of its drain and more.
func TestSettings(t *testing.T) {
	for _, dir := range []string{"one", "fleet"} {
		s := newStack(t, 40, mustRead(t, dir))
		for name := range s.project.Services {
			if s.imageOf(name) != troupeImage {
				continue
			}
			mounts := s.mount(name)
			if out, err := s.command(name, "troupe", []string{"config", "check"}, mounts).CombinedOutput(); err != nil {
				t.Errorf("%s/%s: %v\n%s", dir, name, err, out)
			}
			out, err := s.command(name, "troupe", []string{"config", "show", "--json"}, mounts).Output()
			var settings []struct {
				Name  string
				Value any
			}
			if err == nil {
				err = json.Unmarshal(out, &settings)
			}
			needs := 11 * time.Second // to end after the drain
			for _, setting := range settings {
				if setting.Name == "drain-delay" || setting.Name == "drain-wait" {
					d, err := time.ParseDuration(fmt.Sprint(setting.Value))
					if err != nil {
						t.Fatal(err)
					}
					needs += d
				}
			}
			if grace := s.graceOf(name); err != nil || needs == 11*time.Second || grace < needs {
				t.Errorf("%s/%s may take %v to end, and needs %v: %v", dir, name, grace, needs, err)
			}
		}
	}
}

// TestOneNode serves from the file of one node: calls come through the published port with a key, kill -9 loses no session, and it ends within its time
// while a call goes on that nobody else can end.
func TestOneNode(t *testing.T) {
	s := newStack(t, 41, mustRead(t, "one", "PUBLISH="+freeAddress(t)))
	s.up("troupe")
	address, key := s.publish("troupe"), s.makeKey("troupe")
	s.mustCall(address, key)
	c := begin(t, address, key)
	if status, _, err := (&session{url: c.url, key: "none"}).post(`{}`); status != http.StatusUnauthorized {
		t.Errorf("a client without a key gets %d: %v", status, err)
	}
	s.kill("troupe")
	s.start("troupe")
	s.untilHealthy("troupe")
	c.mustEcho(t, "after kill -9")
	ended := make(chan error, 1)
	go func() {
		_, _, err := c.post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"sleep","arguments":{"ms":3600000}}}`)
		ended <- err
	}()
	s.until("a call is in flight", func() bool {
		out, err := s.exec("troupe", "troupe", "calls", "ls")
		return err == nil && strings.Contains(out, "sleep")
	})
	s.stop("troupe")
	<-ended
}

// TestFleet serves from the file of the fleet: calls come through HAProxy's published port, each node is killed in turn and no session is lost, Prometheus
// sees the nodes, and all end within their time.
func TestFleet(t *testing.T) {
	s := newStack(t, 42, mustRead(t, "fleet", "PUBLISH="+freeAddress(t), "PUBLISH_PROMETHEUS="+freeAddress(t), "MAX_STORE=256MiB"))
	nodes, servers := []string{"node-1", "node-2", "node-3"}, []string{"nats-1", "nats-2", "nats-3"}
	for _, name := range []string{"haproxy", "prometheus"} {
		if program := s.missing(name); program != "" {
			t.Skipf("%s is not installed", program)
		}
	}
	for _, name := range nodes {
		s.up(name)
	}
	s.up("haproxy")
	address, key := s.publish("haproxy"), s.makeKey("node-1")
	s.until("HAProxy has a node", func() bool {
		status, _, err := (&session{url: "http://" + address + "/mcp", key: key}).post(`{}`)
		return err == nil && status != http.StatusServiceUnavailable
	})
	s.mustCall(address, key)
	c := begin(t, address, key)
	for _, name := range nodes {
		s.kill(name)
		for range 6 {
			c.mustEcho(t, "without "+name)
		}
		s.start(name)
		s.untilHealthy(name)
		c.mustEcho(t, "with all")
	}
	s.up("prometheus")
	url := "http://" + s.publish("prometheus") + "/api/v1/targets?state=active"
	s.until("Prometheus sees three nodes", func() bool {
		resp, err := http.Get(url)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		var got struct {
			Data struct {
				ActiveTargets []struct{ ScrapeURL, Health string }
			}
		}
		_ = json.NewDecoder(resp.Body).Decode(&got)
		up := 0
		for _, target := range got.Data.ActiveTargets {
			for _, name := range nodes {
				if target.Health == "up" && strings.Contains(target.ScrapeURL, "//"+s.at[name]+":") {
					up++
				}
			}
		}
		return up == len(nodes)
	})
	s.stop("prometheus")
	if out, err := s.exec("node-2", "troupe", "nodes"); err != nil || strings.Count(out, "serves") != 3 {
		t.Errorf("nodes: %v\n%s", err, out)
	}
	s.stop(nodes...)
	s.stop("haproxy")
	s.stop(servers...)
}
