package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"os"
	"strings"
	"time"
)

// A client is one session over Streamable HTTP.
type client struct {
	url, token   string
	revision     string
	capabilities string
	answer       string // the answer to every question
	cancel       int    // after so many messages of the next request, if not 0
	session      string
	id           int          // of the last request
	heard        chan message // messages on the session's standalone stream
}

// A message has the members of a JSON-RPC message that this program reads.
type message struct {
	ID                    json.RawMessage
	Method                string
	Params, Result, Error json.RawMessage
}

// begin opens the session and its standalone stream, once.
func (c *client) begin() {
	if c.session != "" {
		return
	}
	res := c.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + c.revision + `","capabilities":` +
		c.capabilities + `,"clientInfo":{"name":"try","version":"1"}}}`)
	if c.session = res.Header.Get("Mcp-Session-Id"); c.session == "" {
		refused(res)
		os.Exit(1)
	}
	res.Body.Close()
	c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`).Body.Close()
	own, err := c.send(http.MethodGet, "", "")
	if err != nil {
		log.Fatal(err)
	}
	c.heard = make(chan message, 100)
	go events(own.Body, func(m message) bool { c.heard <- m; return true })
}

// request sends a request and handles messages until its response has come.
func (c *client) request(method, params string) {
	c.id++
	res := c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, c.id, method, params))
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		refused(res)
		return
	}
	answered, cancel := false, c.cancel
	c.cancel = 0
	for {
		last := events(res.Body, func(m message) bool {
			c.handle(m)
			if cancel--; cancel == 0 {
				c.post(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, c.id)).Body.Close()
				fmt.Println("cancelled")
			}
			answered = m.Method == "" || cancel == 0
			return !answered
		})
		res.Body.Close()
		if answered {
			return
		}
		res = c.resume(last)
	}
}

// resume asks for the events after one, again and again until the server is back.
func (c *client) resume(last string) *http.Response {
	for began := time.Now(); time.Since(began) < patience; time.Sleep(200 * time.Millisecond) {
		res, err := c.send(http.MethodGet, "", last)
		if err == nil && res.StatusCode == http.StatusOK {
			return res
		}
		if err == nil {
			res.Body.Close()
		}
	}
	log.Fatal("the server does not come back")
	return nil
}

// handle prints a message, and answers it if it is a question.
func (c *client) handle(m message) {
	if m.Method == "" {
		fmt.Println(string(m.Result) + string(m.Error)) // from Go 1.27 on the formats of fmt have null for what is absent
		return
	}
	fmt.Println(strings.TrimSpace(m.Method + " " + string(m.Params)))
	if m.ID != nil {
		c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, c.answer)).Body.Close()
	}
}

// post sends a message. more are additional headers.
func (c *client) post(body string, more ...http.Header) *http.Response {
	res, err := c.send(http.MethodPost, body, "", more...)
	if err != nil {
		log.Fatal(err)
	}
	return res
}

func (c *client) send(method, body, last string, more ...http.Header) (*http.Response, error) {
	req, err := http.NewRequest(method, c.url, strings.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range map[string]string{"Mcp-Session-Id": c.session, "Last-Event-ID": last, "Authorization": c.token} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	for _, header := range more {
		maps.Copy(req.Header, header)
	}
	return http.DefaultClient.Do(req)
}

// refused prints a response that is not an event stream: a result or a refusal.
func refused(res *http.Response) {
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		fmt.Print(res.StatusCode, " ")
	}
	body, _ := io.ReadAll(res.Body)
	var m message
	if json.Unmarshal(body, &m) != nil {
		fmt.Println(strings.TrimSpace(string(body)))
		return
	}
	fmt.Println(string(m.Result) + string(m.Error)) // from Go 1.27 on the formats of fmt have null for what is absent
}

// events passes on the messages of an event stream until the caller has enough or the
// stream ends, and returns the last event id.
func events(body io.Reader, enough func(message) bool) (last string) {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 16<<20)
	var id, data string
	for lines.Scan() {
		if line := lines.Text(); line != "" {
			if value, ok := strings.CutPrefix(line, "id: "); ok {
				id = value
			}
			if value, ok := strings.CutPrefix(line, "data: "); ok {
				data = value
			}
			continue
		}
		last = id // the event is whole
		var m message
		if json.Unmarshal([]byte(data), &m) == nil && !enough(m) {
			break
		}
		data = ""
	}
	return last
}
