package admin

import (
	"bytes"
	"cmp"
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

	"github.com/troupe-run/troupe/operator"
)

// ErrNoServer reports that no process serves the socket of the data directory.
var ErrNoServer = errors.New("no server answers")

// maxAnswer bounds what a client reads: a result has at most 16 MiB.
const maxAnswer = 64 << 20

// Client asks the node that uses a data directory: it is that node's operator, and more.
type Client struct{ hc *http.Client }

var _ operator.Operator = (*Client)(nil)

// NewClient returns a client for the node that uses a data directory. Close it.
func NewClient(dir string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		path, done, err := shortSocketPath(dir)
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

// Sessions implements [operator.Operator]. Unlike that of a node it goes on until it has as many as
// Query.Limit, if there are so many, and so does Tasks.
func (c *Client) Sessions(ctx context.Context, q operator.Query) (all operator.SessionPage, err error) {
	all.Sessions = []operator.Session{}
	all.Next, err = c.collectPages(q, func(q url.Values) (n int, next uint64, err error) {
		var page operator.SessionPage
		err = c.do(ctx, http.MethodGet, "/sessions?"+q.Encode(), &page)
		all.Sessions = append(all.Sessions, page.Sessions...)
		return len(page.Sessions), page.Next, err
	})
	return all, err
}

// Session implements [operator.Operator].
func (c *Client) Session(ctx context.Context, id string) (s operator.Session, err error) {
	if isNoName(id) {
		return s, operator.ErrNoSession
	}
	err = c.do(ctx, http.MethodGet, "/sessions/"+url.PathEscape(id), &s)
	return s, err
}

// EndSession implements [operator.Operator].
func (c *Client) EndSession(ctx context.Context, id string) (s operator.Session, err error) {
	if isNoName(id) {
		return s, operator.ErrNoSession
	}
	err = c.do(ctx, http.MethodPost, "/sessions/"+url.PathEscape(id)+"/end", &s)
	return s, err
}

// EndPrincipal implements [operator.Operator].
func (c *Client) EndPrincipal(ctx context.Context, principal string) (ended operator.Ended, err error) {
	if isNoName(principal) {
		return ended, operator.ErrNoPrincipal
	}
	err = c.do(ctx, http.MethodPost, "/principals/"+url.PathEscape(principal)+"/end", &ended)
	return ended, err
}

// Calls implements [operator.Operator].
func (c *Client) Calls(ctx context.Context, q operator.Query) (page operator.CallPage, err error) {
	q.Limit = min(q.Limit, operator.MaxPage)
	err = c.do(ctx, http.MethodGet, "/calls?"+queryValues(q).Encode(), &page)
	return page, err
}

// CancelCall implements [operator.Operator].
func (c *Client) CancelCall(ctx context.Context, id string) (call operator.Call, err error) {
	if isNoName(id) {
		return call, operator.ErrNoCall
	}
	err = c.do(ctx, http.MethodPost, "/calls/"+url.PathEscape(id)+"/cancel", &call)
	return call, err
}

// Tasks implements [operator.Operator].
func (c *Client) Tasks(ctx context.Context, q operator.Query) (all operator.TaskPage, err error) {
	all.Tasks = []operator.Task{}
	all.Next, err = c.collectPages(q, func(q url.Values) (n int, next uint64, err error) {
		var page operator.TaskPage
		err = c.do(ctx, http.MethodGet, "/tasks?"+q.Encode(), &page)
		all.Tasks = append(all.Tasks, page.Tasks...)
		return len(page.Tasks), page.Next, err
	})
	return all, err
}

// Task implements [operator.Operator].
func (c *Client) Task(ctx context.Context, id string, result bool) (d operator.TaskDetail, err error) {
	if isNoName(id) {
		return d, operator.ErrNoTask
	}
	err = c.do(ctx, http.MethodGet, "/tasks/"+url.PathEscape(id)+"?result="+strconv.FormatBool(result), &d)
	return d, err
}

// CancelTask implements [operator.Operator].
func (c *Client) CancelTask(ctx context.Context, id string) (t operator.Task, err error) {
	if isNoName(id) {
		return t, operator.ErrNoTask
	}
	err = c.do(ctx, http.MethodPost, "/tasks/"+url.PathEscape(id)+"/cancel", &t)
	return t, err
}

// isNoName reports that a text names nothing in a path.
func isNoName(id string) bool { return id == "" || id == "." || id == ".." }

// collectPages asks for pages until there are as many as q.Limit, or no more.
func (c *Client) collectPages(q operator.Query, page func(url.Values) (n int, next uint64, err error)) (next uint64, err error) {
	want := cmp.Or(q.Limit, 100)
	for {
		q.Limit = min(want, operator.MaxPage)
		n, next, err := page(queryValues(q))
		if want -= n; err != nil || next == 0 || want <= 0 {
			return next, err
		}
		q.From = next
	}
}

// queryValues are a query in the address of a list.
func queryValues(q operator.Query) url.Values {
	v := url.Values{}
	for name, value := range map[string]string{"principal": q.Principal, "server": q.Server, "state": q.State} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if q.Limit != 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	if q.From != 0 {
		v.Set("from", strconv.FormatUint(q.From, 10))
	}
	return v
}

// Nodes implements [operator.Operator].
func (c *Client) Nodes(ctx context.Context) (all []operator.Node, err error) {
	err = c.do(ctx, http.MethodGet, "/nodes", &all)
	return all, err
}

// Drain implements [operator.Operator].
func (c *Client) Drain(ctx context.Context) (d operator.Draining, err error) {
	err = c.do(ctx, http.MethodPost, "/drain", &d)
	return d, err
}

// Draining implements [operator.Operator].
func (c *Client) Draining(ctx context.Context) (d operator.Draining, err error) {
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
	f := fault{Result: into}
	if json.Unmarshal(answer, &f) != nil || f.Error == "" {
		return fmt.Errorf("the server answers %s", resp.Status)
	}
	for _, known := range statuses {
		if more, ok := strings.CutPrefix(f.Error, known.err.Error()); ok {
			return fmt.Errorf("%w%s", known.err, more)
		}
	}
	return errors.New(f.Error)
}
