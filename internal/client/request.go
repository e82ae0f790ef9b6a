package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"strings"

	"github.com/troupe-run/troupe/mcp"
)

// request is a request to the server.
type request struct {
	method string
	params map[string]json.RawMessage
	about  string      // the tool or the task; "" for no such thing
	header http.Header // beside those of every request
	reads  bool        // it may be carried out twice
}

// sendRepeated sends a request, again where that may help, and returns the result of the one that was answered. The error is an *[mcp.Error] if the
// server answered with one.
func (c *Client) sendRepeated(ctx context.Context, q request) (json.RawMessage, error) {
	p := patience{c: c}
	for {
		result, err := c.sendOnce(ctx, q)
		after, may := mayRepeat(err, q.reads)
		if !may {
			if e, ok := errors.AsType[*brokenError](err); ok {
				err = fmt.Errorf("%w (%s)", ErrLost, innermostText(e.err))
			}
			if _, ok := errors.AsType[*goneError](err); !ok && ctx.Err() == nil {
				p.serverIsBack()
			}
			return result, err
		}
		if err := p.waitForServer(ctx, after, err); err != nil {
			return nil, err
		}
	}
}

// sendOnce sends a request and reads its answer.
func (c *Client) sendOnce(ctx context.Context, q request) (json.RawMessage, error) {
	id := c.newID()
	body, err := encodeMessage(id, q.method, c.withMeta(q, id))
	if err != nil {
		return nil, err
	}
	defer func() {
		if ctx.Err() != nil && !c.isStateless() && q.method == mcp.MethodToolsCall {
			c.cancelRequest(id) // without a session, the end of the connection says it
		}
	}()
	res, err := c.postMessage(ctx, body, q)
	if err != nil {
		return nil, err
	}
	if q.method == mcp.MethodInitialize {
		c.session = res.Header.Get("Mcp-Session-Id")
	}
	if isStream(res) {
		return c.followStream(ctx, id, res.Body)
	}
	return readAnswer(ctx, res, id)
}

// withMeta returns the params of a request with the `_meta` that the client adds.
func (c *Client) withMeta(q request, id string) map[string]json.RawMessage {
	meta := map[string]any{}
	if q.method == mcp.MethodToolsCall {
		meta[mcp.MetaProgressToken] = json.RawMessage(id)
	}
	if c.isStateless() {
		meta[mcp.MetaProtocolVersion], meta[mcp.MetaClientInfo], meta[mcp.MetaClientCapabilities] = c.revision.String(), c.o.clientInfo(), c.o.clientCapabilities(c.revision)
	}
	if len(meta) == 0 {
		return q.params
	}
	params := map[string]json.RawMessage{"_meta": encodeRaw(meta)}
	maps.Copy(params, q.params)
	return params
}

// postMessage sends a message.
func (c *Client) postMessage(ctx context.Context, body []byte, q request) (*http.Response, error) {
	r, err := c.newRequest(ctx, http.MethodPost, body)
	if err != nil {
		return nil, err
	}
	if c.isStateless() {
		r.Header.Set("Mcp-Method", q.method)
		if q.about != "" {
			r.Header.Set("Mcp-Name", headerValue(q.about))
		}
	}
	maps.Copy(r.Header, q.header)
	res, err := c.http.Do(r)
	if err != nil {
		return nil, noResponse(ctx, err)
	}
	return res, nil
}

// sendMessage sends a message that has no answer: a notification, or the answer to a question of the server.
func (c *Client) sendMessage(ctx context.Context, body []byte, method string) error {
	p := patience{c: c}
	for {
		res, err := c.postMessage(ctx, body, request{method: method})
		if err == nil {
			if res.StatusCode/100 == 2 {
				_ = res.Body.Close()
				p.serverIsBack()
				return nil
			}
			_, err = readAnswer(ctx, res, "")
		}
		after, may := mayRepeat(err, true)
		if !may {
			return err
		}
		if err := p.waitForServer(ctx, after, err); err != nil {
			return err
		}
	}
}

// cancelRequest says that nobody waits for the answer to a request any more.
func (c *Client) cancelRequest(id string) {
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	body, err := encodeMessage("", mcp.NotifyCancelled, map[string]json.RawMessage{"requestId": json.RawMessage(id)})
	if err != nil {
		return
	}
	if res, err := c.postMessage(ctx, body, request{method: mcp.NotifyCancelled}); err == nil {
		_ = res.Body.Close()
	}
}

func isStream(res *http.Response) bool {
	return res.StatusCode == http.StatusOK && kindOf(res) == "text/event-stream"
}

func kindOf(res *http.Response) string {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	return kind
}

const (
	// mostExcerpt is how much of a body that is no message an error shows, in bytes.
	mostExcerpt = 300
	// mostStray is how much is read of a body that is not said to be JSON.
	mostStray = 64 << 10
)

// readAnswer reads a response that is one message, and closes its body.
func readAnswer(ctx context.Context, res *http.Response, id string) (json.RawMessage, error) {
	defer res.Body.Close()
	most := mostStray
	if kindOf(res) == "application/json" {
		most = MostBytes
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, int64(most)+1))
	if err != nil {
		return nil, noResponse(ctx, err)
	}
	strange := &StatusError{Status: res.StatusCode, Header: res.Header, Body: excerptOf(body)}
	if len(body) > most {
		strange.Why = fmt.Sprintf("more than %d bytes", most)
		return nil, askedLater(res, strange)
	}
	all, err := parseMessages(body)
	if err != nil {
		if res.StatusCode/100 == 2 && most == MostBytes {
			strange.Why = err.Error()
		}
		return nil, askedLater(res, strange)
	}
	for _, m := range all {
		if !m.isAnswerTo(id) {
			continue
		}
		result, err := m.resultOrError()
		if err == nil && res.StatusCode != http.StatusOK {
			return nil, strange
		}
		// A server that knows the client's user, or not, says so in its headers.
		if res.StatusCode == http.StatusUnauthorized {
			return nil, strange
		}
		return result, askedLater(res, err)
	}
	strange.Why = "an answer to another request"
	return nil, strange
}

// excerptOf is the beginning of a body on one line.
func excerptOf(body []byte) string {
	text := string(body[:min(len(body), mostExcerpt)])
	if len(body) > mostExcerpt {
		text += "..."
	}
	return strings.Join(strings.Fields(text), " ")
}
