package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrNoServer reports that no process serves the socket of the data directory.
var ErrNoServer = errors.New("no server answers")

// maxAnswer bounds what a client reads: a result has at most 16 MiB.
const maxAnswer = 64 << 20

// Client asks the node that uses a data directory.
type Client struct{ hc *http.Client }

// NewClient returns a client for the node that uses a data directory. Close it.
func NewClient(dir string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		path, done, err := short(dir)
		if err != nil {
			return nil, err
		}
		defer done()
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
	return &Client{&http.Client{Transport: &http.Transport{DialContext: dial}, Timeout: time.Minute}}
}

// Close ends the connection.
func (c *Client) Close() { c.hc.CloseIdleConnections() }

// List returns tasks from a cursor on, as many as q.Limit if there are so many.
func (c *Client) List(ctx context.Context, q Query) (all Page, err error) {
	all.Tasks = []Task{}
	all.Next = q.From
	for more := true; more; {
		var page Page
		v := url.Values{"state": {q.State}, "limit": {strconv.Itoa(min(q.Limit-len(all.Tasks), MaxPage))}, "from": {strconv.FormatUint(all.Next, 10)}}
		if err := c.do(ctx, http.MethodGet, "/tasks?"+v.Encode(), &page); err != nil {
			return Page{}, err
		}
		all.Tasks = append(all.Tasks, page.Tasks...)
		all.Next = page.Next
		more = page.Next != 0 && len(all.Tasks) < q.Limit
	}
	return all, nil
}

// Show returns a task, with its result if that is asked for.
func (c *Client) Show(ctx context.Context, id string, result bool) (d Detail, err error) {
	err = c.do(ctx, http.MethodGet, "/tasks/"+url.PathEscape(id)+"?result="+strconv.FormatBool(result), &d)
	return d, err
}

// Cancel ends a task.
func (c *Client) Cancel(ctx context.Context, id string) (t Task, err error) {
	err = c.do(ctx, http.MethodPost, "/tasks/"+url.PathEscape(id)+"/cancel", &t)
	return t, err
}

// Sessions returns sessions from a cursor on, at most limit.
func (c *Client) Sessions(ctx context.Context, limit int, from uint64) (all SessionPage, err error) {
	all.Sessions, all.Next = []Session{}, from
	for more := true; more; {
		var page SessionPage
		v := url.Values{"limit": {strconv.Itoa(min(limit-len(all.Sessions), MaxPage))}, "from": {strconv.FormatUint(all.Next, 10)}}
		if err := c.do(ctx, http.MethodGet, "/sessions?"+v.Encode(), &page); err != nil {
			return SessionPage{}, err
		}
		all.Sessions = append(all.Sessions, page.Sessions...)
		all.Next = page.Next
		more = page.Next != 0 && len(all.Sessions) < limit
	}
	return all, nil
}

// Session returns a session, by its id or the tag of it.
func (c *Client) Session(ctx context.Context, id string) (s Session, err error) {
	err = c.do(ctx, http.MethodGet, "/sessions/"+url.PathEscape(id), &s)
	return s, err
}

// EndSession ends a session.
func (c *Client) EndSession(ctx context.Context, id string) (s Session, err error) {
	err = c.do(ctx, http.MethodPost, "/sessions/"+url.PathEscape(id)+"/end", &s)
	return s, err
}

// Nodes lists the nodes.
func (c *Client) Nodes(ctx context.Context) (all []Node, err error) {
	err = c.do(ctx, http.MethodGet, "/nodes", &all)
	return all, err
}

// Drain begins to end the node.
func (c *Client) Drain(ctx context.Context) (d Draining, err error) {
	err = c.do(ctx, http.MethodPost, "/drain", &d)
	return d, err
}

// Draining returns what the node still has to do.
func (c *Client) Draining(ctx context.Context) (d Draining, err error) {
	err = c.do(ctx, http.MethodGet, "/drain", &d)
	return d, err
}

// Keys lists the API keys.
func (c *Client) Keys(ctx context.Context) (all []Key, err error) {
	err = c.do(ctx, http.MethodGet, "/keys", &all)
	return all, err
}

// CreateKey makes an API key.
func (c *Client) CreateKey(ctx context.Context, want KeyRequest) (k NewKey, err error) {
	err = c.send(ctx, http.MethodPost, "/keys", want, &k)
	return k, err
}

// RotateKey gives an API key another secret.
func (c *Client) RotateKey(ctx context.Context, key string, r Rotation) (k NewKey, err error) {
	err = c.send(ctx, http.MethodPost, "/keys/"+url.PathEscape(key)+"/rotate", r, &k)
	return k, err
}

// RevokeKey ends an API key.
func (c *Client) RevokeKey(ctx context.Context, key string) (k Key, err error) {
	err = c.do(ctx, http.MethodPost, "/keys/"+url.PathEscape(key)+"/revoke", &k)
	return k, err
}

// Revocations lists the revocations.
func (c *Client) Revocations(ctx context.Context) (all []Revocation, err error) {
	err = c.do(ctx, http.MethodGet, "/revocations", &all)
	return all, err
}

// Revoke makes a revocation.
func (c *Client) Revoke(ctx context.Context, want RevocationRequest) (r Revocation, err error) {
	err = c.send(ctx, http.MethodPost, "/revocations", want, &r)
	return r, err
}

// RemoveRevocation takes a revocation back.
func (c *Client) RemoveRevocation(ctx context.Context, id string) (r Revocation, err error) {
	err = c.do(ctx, http.MethodDelete, "/revocations/"+url.PathEscape(id), &r)
	return r, err
}

// do sends a request and decodes the answer.
func (c *Client) do(ctx context.Context, method, path string, into any) error {
	return c.send(ctx, method, path, nil, into)
}

// send is do with a body, nil for none.
func (c *Client) send(ctx context.Context, method, path string, body, into any) error {
	var content io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://node"+path, content)
	if err != nil {
		return err
	}
	resp, err := c.hc.Do(req)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: %w", ErrNoServer, err)
	case err != nil:
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return err
	}
	if resp.StatusCode == http.StatusOK {
		return json.Unmarshal(answer, into)
	}
	var f fault
	if json.Unmarshal(answer, &f) != nil || f.Error == "" {
		return fmt.Errorf("the server answers %s", resp.Status)
	}
	for _, known := range []error{ErrUnknown, ErrEnded, ErrNoSession, ErrDraining, ErrNoKey, ErrKey, ErrNoRevocation, ErrRevocation} {
		if more, ok := strings.CutPrefix(f.Error, known.Error()); ok {
			return fmt.Errorf("%w%s", known, more)
		}
	}
	return errors.New(f.Error)
}
