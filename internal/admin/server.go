package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/troupe-run/troupe/operator"
)

// ErrInUse reports that another process serves the socket.
var ErrInUse = errors.New("another process serves the socket")

// Server serves the socket of a data directory.
type Server struct {
	path string
	file fs.FileInfo // of the socket
	done func()
	hs   *http.Server
}

// Operated is what an operator may look at and change.
type Operated struct {
	Operator operator.Operator
	Keys     Keys
	Revoked  Revocations
	Backends Backends
}

// Listen begins to serve the socket of a data directory. A socket that nobody serves is replaced. ErrInUse: somebody does.
func Listen(dir string, o Operated) (*Server, error) {
	path, done, err := shortSocketPath(dir)
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	s, err := startServer(path, filepath.Join(dir, SocketName), o)
	if err != nil {
		done()
		return nil, fmt.Errorf("admin: %w", err)
	}
	s.done = done
	return s, nil
}

func startServer(path, file string, o Operated) (*Server, error) {
	if c, err := net.Dial("unix", path); err == nil {
		_ = c.Close()
		return nil, fmt.Errorf("%w: %s", ErrInUse, file)
	}
	switch old, err := os.Lstat(file); {
	case err == nil && old.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("%s is there, and is no socket", file)
	case err == nil:
		if err := os.Remove(file); err != nil {
			return nil, err
		}
	}
	ln, err := (&net.ListenConfig{Control: makeSocketPrivate}).Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	if u, ok := ln.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // Close removes the file, if it is still this one
	}
	s := &Server{path: file, hs: &http.Server{Handler: newHandler(o), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}}
	err = os.Chmod(file, 0o600)
	if err == nil {
		s.file, err = os.Lstat(file)
	}
	if err != nil {
		return nil, errors.Join(err, ln.Close(), os.Remove(file))
	}
	go func() { _ = s.hs.Serve(ln) }() // until Close
	return s, nil
}

// Close ends the socket and removes it.
func (s *Server) Close() error {
	defer s.done()
	err := s.hs.Close()
	if now, gone := os.Lstat(s.path); gone == nil && os.SameFile(now, s.file) {
		err = errors.Join(err, os.Remove(s.path))
	}
	return err
}

// newHandler answers the requests.
func newHandler(o Operated) http.Handler {
	mux := http.NewServeMux()
	handleNodes(mux, o.Operator)
	handleSessions(mux, o.Operator)
	handleCalls(mux, o.Operator)
	handleTasks(mux, o.Operator)
	handleKeys(mux, o.Keys)
	handleRevocations(mux, o.Revoked)
	handleBackends(mux, o.Backends)
	return mux
}

// handleTasks answers the requests about tasks.
func handleTasks(mux *http.ServeMux, o operator.Operator) {
	handleList(mux, "GET /tasks", o.Tasks)
	mux.HandleFunc("GET /tasks/{id}", func(w http.ResponseWriter, r *http.Request) {
		d, err := o.Task(r.Context(), r.PathValue("id"), r.URL.Query().Get("result") == "true")
		answer(w, d, err)
	})
	mux.HandleFunc("POST /tasks/{id}/cancel", func(w http.ResponseWriter, r *http.Request) {
		task, err := o.CancelTask(r.Context(), r.PathValue("id"))
		answer(w, task, err)
	})
}

// handleCalls answers the requests about calls.
func handleCalls(mux *http.ServeMux, o operator.Operator) {
	handleList(mux, "GET /calls", o.Calls)
	mux.HandleFunc("POST /calls/{id}/cancel", func(w http.ResponseWriter, r *http.Request) {
		call, err := o.CancelCall(r.Context(), r.PathValue("id"))
		answer(w, call, err)
	})
}

// handleSessions answers the requests about sessions, and about whoever has them.
func handleSessions(mux *http.ServeMux, o operator.Operator) {
	handleList(mux, "GET /sessions", o.Sessions)
	mux.HandleFunc("GET /sessions/{id}", func(w http.ResponseWriter, r *http.Request) {
		x, err := o.Session(r.Context(), r.PathValue("id"))
		answer(w, x, err)
	})
	mux.HandleFunc("POST /sessions/{id}/end", func(w http.ResponseWriter, r *http.Request) {
		x, err := o.EndSession(r.Context(), r.PathValue("id"))
		answer(w, x, err)
	})
	mux.HandleFunc("POST /principals/{principal}/end", func(w http.ResponseWriter, r *http.Request) {
		ended, err := o.EndPrincipal(r.Context(), r.PathValue("principal"))
		answer(w, ended, err)
	})
}

// handleList answers the requests for a list.
func handleList[P any](mux *http.ServeMux, pattern string, list func(context.Context, operator.Query) (P, error)) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		q, err := parseQuery(r.URL.Query())
		if err != nil {
			writeJSON(w, http.StatusBadRequest, fault{Error: err.Error()})
			return
		}
		page, err := list(r.Context(), q)
		answer(w, page, err)
	})
}

// parseQuery is which part of a list is asked for.
func parseQuery(v url.Values) (q operator.Query, err error) {
	q = operator.Query{Principal: v.Get("principal"), Server: v.Get("server"), State: v.Get("state")}
	if s := v.Get("limit"); s != "" {
		if q.Limit, err = strconv.Atoi(s); err != nil || q.Limit < 1 {
			return q, fmt.Errorf("%w: limit is %q: want a number from 1 to %d", operator.ErrQuery, s, operator.MaxPage)
		}
	}
	if s := v.Get("from"); s != "" {
		if q.From, err = strconv.ParseUint(s, 10, 64); err != nil {
			return q, fmt.Errorf("%w: from is %q: want the next of a page", operator.ErrQuery, s)
		}
	}
	return q, nil
}

// handleKeys answers the requests about API keys.
func handleKeys(mux *http.ServeMux, k Keys) {
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, r *http.Request) {
		all, err := k.Keys(r.Context())
		answer(w, all, err)
	})
	mux.HandleFunc("POST /keys", func(w http.ResponseWriter, r *http.Request) {
		var want KeyRequest
		if readBody(w, r, &want) {
			made, err := k.CreateKey(r.Context(), want)
			answer(w, made, err)
		}
	})
	mux.HandleFunc("POST /keys/{key}/rotate", func(w http.ResponseWriter, r *http.Request) {
		var how Rotation
		if readBody(w, r, &how) {
			made, err := k.RotateKey(r.Context(), r.PathValue("key"), how)
			answer(w, made, err)
		}
	})
	mux.HandleFunc("POST /keys/{key}/revoke", func(w http.ResponseWriter, r *http.Request) {
		key, err := k.RevokeKey(r.Context(), r.PathValue("key"))
		answer(w, key, err)
	})
}

// handleRevocations answers the requests about revocations.
func handleRevocations(mux *http.ServeMux, v Revocations) {
	mux.HandleFunc("GET /revocations", func(w http.ResponseWriter, r *http.Request) {
		all, err := v.Revocations(r.Context())
		answer(w, all, err)
	})
	mux.HandleFunc("POST /revocations", func(w http.ResponseWriter, r *http.Request) {
		var want RevocationRequest
		if readBody(w, r, &want) {
			made, err := v.Revoke(r.Context(), want)
			answer(w, made, err)
		}
	})
	mux.HandleFunc("DELETE /revocations/{id}", func(w http.ResponseWriter, r *http.Request) {
		removed, err := v.RemoveRevocation(r.Context(), r.PathValue("id"))
		answer(w, removed, err)
	})
}

// readBody reads the body of a request, and reports whether it could.
func readBody(w http.ResponseWriter, r *http.Request, into any) bool {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(into); err != nil {
		writeJSON(w, http.StatusBadRequest, fault{Error: "the body cannot be read: " + err.Error()})
		return false
	}
	return true
}

// handleNodes answers the requests about nodes.
func handleNodes(mux *http.ServeMux, o operator.Operator) {
	mux.HandleFunc("GET /nodes", func(w http.ResponseWriter, r *http.Request) {
		all, err := o.Nodes(r.Context())
		answer(w, all, err)
	})
	mux.HandleFunc("GET /drain", func(w http.ResponseWriter, r *http.Request) {
		d, err := o.Draining(r.Context())
		answer(w, d, err)
	})
	mux.HandleFunc("POST /drain", func(w http.ResponseWriter, r *http.Request) {
		d, err := o.Drain(r.Context())
		answer(w, d, err)
	})
}

// fault is the body of an error.
type fault struct {
	Error  string `json:"error"`
	Result any    `json:"result,omitempty"` // what was done nevertheless
}

// statuses are those of the errors that are known by their texts.
var statuses = []struct {
	err    error
	status int
}{
	{operator.ErrNoTask, http.StatusNotFound}, {operator.ErrNoSession, http.StatusNotFound}, {operator.ErrNoCall, http.StatusNotFound},
	{operator.ErrNoPrincipal, http.StatusNotFound}, {ErrNoKey, http.StatusNotFound}, {ErrNoRevocation, http.StatusNotFound}, {ErrNoBackend, http.StatusNotFound},
	{operator.ErrTaskEnded, http.StatusConflict}, {operator.ErrDraining, http.StatusConflict}, {ErrKey, http.StatusConflict}, {ErrRevocation, http.StatusConflict},
	{operator.ErrQuery, http.StatusBadRequest},
}

// answer sends a result, or the error in its place.
func answer(w http.ResponseWriter, result any, err error) {
	if err == nil {
		writeJSON(w, http.StatusOK, result)
		return
	}
	for _, known := range statuses {
		if errors.Is(err, known.err) {
			writeJSON(w, known.status, fault{Error: err.Error()})
			return
		}
	}
	writeJSON(w, http.StatusServiceUnavailable, fault{err.Error(), result})
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client is gone
}
