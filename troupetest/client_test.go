package troupetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/origin"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/troupetest"
)

type greeting struct {
	Name string `json:"name"`
}

// server has a tool for each thing that the client can do.
func server() *troupe.Server {
	srv := troupe.NewServer(mcp.Implementation{Name: "test", Version: "1"}, &troupe.ServerOptions{Limits: troupe.Limits{PageSize: 3}})
	troupe.AddTool(srv, troupe.Tool{Name: "greet"}, func(_ context.Context, _ *troupe.Call, in greeting) (string, error) {
		if in.Name == "" {
			return "", errors.New("nobody to greet")
		}
		return "Hello, " + in.Name + "!", nil
	})
	troupe.AddTool(srv, troupe.Tool{Name: "ask"}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
		r, err := call.Elicit(ctx, "Who?", mcp.FormSchema{Properties: []mcp.Property{{Name: "name", Schema: &mcp.StringSchema{}}}})
		return string(r.Action) + " " + string(r.Content), err
	})
	troupe.AddTool(srv, troupe.Tool{Name: "sample"}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
		r, err := call.Sample(ctx, mcp.CreateMessageParams{MaxTokens: 10, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Blocks(mcp.Text("Hi"))}}})
		return r.Model, err
	})
	troupe.AddTool(srv, troupe.Tool{Name: "roots"}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
		roots, err := call.Roots(ctx)
		return fmt.Sprint(len(roots)), err
	})
	troupe.AddTool(srv, troupe.Tool{Name: "work"}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
		for i := range 3 {
			if err := errors.Join(call.Progress(ctx, float64(i+1), 3, ""), call.Log(ctx, mcp.LevelInfo, "work", fmt.Sprint("step ", i+1))); err != nil {
				return "", err
			}
			select {
			case <-time.After(time.Minute):
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		}
		return "done", nil
	})
	return srv
}

// each runs f for each revision, in virtual time.
func each(t *testing.T, f func(t *testing.T, r mcp.Revision)) {
	for _, r := range mcp.Revisions() {
		t.Run(r.String(), func(t *testing.T) {
			troupetest.Test(t, func(t *testing.T) { f(t, r) })
		})
	}
}

func TestCallTool(t *testing.T) {
	each(t, func(t *testing.T, r mcp.Revision) {
		c := troupetest.Connect(t, server(), troupetest.Options{Revision: r})
		got, err := c.CallTool(t.Context(), "greet", greeting{"Ada"})
		if err != nil || troupetest.Text(got) != "Hello, Ada!" || got.IsError {
			t.Errorf("greet: %+v, %v", got, err)
		}
		if got, err := c.CallTool(t.Context(), "greet", greeting{}); err != nil || !got.IsError || troupetest.Text(got) != "nobody to greet" {
			t.Errorf("a tool that fails: %+v, %v", got, err)
		}
		if _, err := c.CallTool(t.Context(), "none", nil); !errors.Is(err, mcp.NewError(mcp.CodeInvalidParams, "")) {
			t.Errorf("no such tool: %v", err)
		}
		tools, err := c.Tools(t.Context())
		var names []string
		for _, tool := range tools {
			names = append(names, tool.Name)
		}
		if slices.Sort(names); err != nil || strings.Join(names, " ") != "ask greet roots sample work" {
			t.Errorf("tools are %q, %v", names, err)
		}
	})
}

func TestQuestions(t *testing.T) {
	each(t, func(t *testing.T, r mcp.Revision) {
		c := troupetest.Connect(t, server(), troupetest.Options{
			Revision: r,
			Elicit: func(_ context.Context, p mcp.ElicitParams) (mcp.ElicitResult, error) {
				if p.Mode == mcp.ElicitModeURL || p.Message != "Who?" || p.RequestedSchema == nil {
					t.Errorf("asked %+v", p)
				}
				return mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(`{"name":"Ada"}`)}, nil
			},
			Sample: func(context.Context, mcp.CreateMessageParams) (mcp.CreateMessageResult, error) {
				return mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: "small", Content: mcp.Blocks(mcp.Text("Hi"))}, nil
			},
			Roots: func(context.Context) ([]mcp.Root, error) { return []mcp.Root{{URI: "file:///a"}}, nil },
		})
		want := map[string]string{"sample": "small", "roots": "1"}
		if protocol.Has(r, protocol.FeatureElicitation) {
			want["ask"] = `accept {"name":"Ada"}`
		}
		for tool, want := range want {
			if got, err := c.CallTool(t.Context(), tool, nil); err != nil || troupetest.Text(got) != want {
				t.Errorf("%s: %q, %v, want %q", tool, troupetest.Text(got), err, want)
			}
		}
	})
}

func TestNobodyAnswers(t *testing.T) {
	each(t, func(t *testing.T, r mcp.Revision) {
		c := troupetest.Connect(t, server(), troupetest.Options{Revision: r, Sample: func(context.Context, mcp.CreateMessageParams) (mcp.CreateMessageResult, error) {
			return mcp.CreateMessageResult{}, mcp.NewError(mcp.CodeUserRejected, "no")
		}})
		if got, err := c.CallTool(t.Context(), "roots", nil); err == nil && !got.IsError {
			t.Errorf("roots of a client without: %+v", got)
		}
		if got, err := c.CallTool(t.Context(), "sample", nil); err == nil && !got.IsError {
			t.Errorf("a rejected question: %+v", got)
		}
	})
}

func TestProgressAndLog(t *testing.T) {
	each(t, func(t *testing.T, r mcp.Revision) {
		var seen []string
		c := troupetest.Connect(t, server(), troupetest.Options{
			Revision: r,
			Progress: func(p mcp.ProgressParams) { seen = append(seen, fmt.Sprintf("%v of %v", p.Progress, *p.Total)) },
			Log:      func(p mcp.LogParams) { seen = append(seen, string(p.Data)) },
		})
		began := time.Now()
		got, err := c.CallTool(t.Context(), "work", nil)
		if err != nil || troupetest.Text(got) != "done" {
			t.Errorf("work: %+v, %v", got, err)
		}
		if took := time.Since(began); took != 3*time.Minute {
			t.Errorf("three minutes took %v", took)
		}
		if want := `1 of 3, "step 1", 2 of 3, "step 2", 3 of 3, "step 3"`; strings.Join(seen, ", ") != want {
			t.Errorf("seen %q, want %s", seen, want)
		}
	})
}

func TestCancel(t *testing.T) {
	each(t, func(t *testing.T, r mcp.Revision) {
		ended := make(chan error, 1)
		srv := server()
		troupe.AddTool(srv, troupe.Tool{Name: "wait"}, func(ctx context.Context, _ *troupe.Call, _ struct{}) (string, error) {
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return "", ctx.Err()
		})
		c := troupetest.Connect(t, srv, troupetest.Options{Revision: r})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.CallTool(ctx, "wait", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the call ended with %v", err)
		}
		if err := <-ended; !errors.Is(err, troupe.ErrCancelled) {
			t.Errorf("the handler's context ended with %v", err)
		}
	})
}

func TestSubscribe(t *testing.T) {
	each(t, func(t *testing.T, r mcp.Revision) {
		srv := server()
		troupe.AddResource(srv, mcp.Resource{URI: "test://a", Name: "a"}, func(context.Context, *troupe.Call, string, map[string]string) ([]mcp.ResourceContents, error) {
			return nil, nil
		})
		var seen []string
		c := troupetest.Connect(t, srv, troupetest.Options{Revision: r, Notify: func(method string, params json.RawMessage) { seen = append(seen, method) }})
		if err := c.Subscribe(t.Context(), "test://a"); err != nil {
			t.Fatal(err)
		}
		srv.ResourceUpdated("test://a")
		troupe.AddTool(srv, troupe.Tool{Name: "more"}, func(context.Context, *troupe.Call, struct{}) (string, error) { return "", nil })
		time.Sleep(time.Second)
		synctest.Wait()
		for _, want := range []string{mcp.NotifyResourcesUpdated, mcp.NotifyToolsListChanged} {
			if !slices.Contains(seen, want) {
				t.Errorf("notified of %q, want %s", seen, want)
			}
		}
	})
}

// TestSubscribeTwiceAtOnce checks that two subscriptions that are requested at once are both acknowledged.
func TestSubscribeTwiceAtOnce(t *testing.T) {
	each(t, func(t *testing.T, r mcp.Revision) {
		srv := server()
		troupe.AddResource(srv, mcp.Resource{URI: "test://a", Name: "a"}, func(context.Context, *troupe.Call, string, map[string]string) ([]mcp.ResourceContents, error) {
			return nil, nil
		})
		c := troupetest.Connect(t, srv, troupetest.Options{Revision: r})
		done := make(chan error, 2)
		for range cap(done) {
			go func() { done <- c.Subscribe(t.Context(), "test://a") }()
		}
		for range cap(done) {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

// fatal is a test that notes its failure.
type fatal struct {
	testing.TB
	text string
}

func (f *fatal) Fatalf(format string, args ...any) {
	f.text = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// TestConnectTwice checks that a server has one client at a time: a second one fails its test, on the test's goroutine,
// and one after the first is served.
func TestConnectTwice(t *testing.T) {
	each(t, func(t *testing.T, r mcp.Revision) {
		srv := server()
		first := troupetest.Connect(t, srv, troupetest.Options{Revision: r})
		f, ended := &fatal{TB: t}, make(chan struct{})
		go func() { // stands for a test
			defer close(ended)
			troupetest.Connect(f, srv, troupetest.Options{Revision: r})
		}()
		if <-ended; !strings.Contains(f.text, "one client at a time") {
			t.Errorf("a second client failed its test with %q", f.text)
		}
		for again := first; ; again = troupetest.Connect(t, srv, troupetest.Options{Revision: r}) {
			got, err := again.CallTool(t.Context(), "greet", greeting{"Ada"})
			if err != nil || troupetest.Text(got) != "Hello, Ada!" {
				t.Errorf("greet: %+v, %v", got, err)
			}
			if err := again.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			if again != first {
				return
			}
		}
	})
}

// TestRevisionOfTheServer connects clients of the default and of each revision to servers that speak some.
func TestRevisionOfTheServer(t *testing.T) {
	for _, spoken := range [][]mcp.Revision{{mcp.Revision20250326, mcp.Revision20251125}, {mcp.Latest}} {
		for _, asked := range append(mcp.Revisions(), 0) {
			troupetest.Test(t, func(t *testing.T) {
				srv := troupe.NewServer(mcp.Implementation{Name: "test", Version: "1"}, nil)
				troupe.AddTool(srv, troupe.Tool{Name: "revision"}, func(_ context.Context, call *troupe.Call, _ struct{}) (string, error) {
					return call.Peer().Revision(), nil
				})
				f, got, ended := &fatal{TB: t}, "", make(chan struct{})
				go func() { // stands for a test
					defer close(ended)
					r, err := troupetest.Connect(f, srv, troupetest.Options{Revision: asked, Runtime: troupe.Options{Revisions: spoken}}).CallTool(t.Context(), "revision", nil)
					if err != nil {
						t.Error(err)
						return
					}
					got = troupetest.Text(r)
				}()
				<-ended
				want, fault := asked.String(), ""
				if asked == 0 {
					want = spoken[len(spoken)-1].String()
				} else if !slices.Contains(spoken, asked) {
					want, fault = "", fmt.Sprintf("troupetest: the server speaks %v, not %v", spoken, asked)
				}
				if got != want || f.text != fault {
					t.Errorf("asked for %v: the call is of %q and the test failed with %q, want %q and %q", asked, got, f.text, want, fault)
				}
				if fault != "" && len(srv.Revisions()) != len(mcp.Revisions()) {
					t.Error("the server is still mounted")
				}
			})
		}
	}
}

func TestClose(t *testing.T) {
	troupetest.Test(t, func(t *testing.T) {
		c := troupetest.Connect(t, server(), troupetest.Options{})
		failed := make(chan error, 1)
		go func() {
			_, err := c.CallTool(t.Context(), "work", nil)
			failed <- err
		}()
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := <-failed; err == nil {
			t.Error("a call of three minutes ended well within five seconds")
		}
		if _, err := c.CallTool(t.Context(), "greet", nil); !errors.Is(err, troupetest.ErrClosed) {
			t.Errorf("a call after the end: %v", err)
		}
	})
}

// TestCaller checks what a handler knows of its caller, in a session and stateless: what the options say, or what
// Authenticate makes of the header.
func TestCaller(t *testing.T) {
	authenticate := func(r *http.Request) (troupe.Principal, error) {
		return troupe.Principal{Subject: r.Header.Get("X-User")}, nil
	}
	header := http.Header{"X-User": {"bob"}}
	for _, revision := range []mcp.Revision{mcp.LatestLegacy, mcp.Latest} {
		for want, o := range map[string]troupetest.Options{
			"||":           {},
			"bob||":        {Header: header},
			"|ada|t0ken":   {Principal: troupe.Principal{Subject: "ada", Token: troupe.NewSecret("t0ken")}},
			"bob|bob|":     {Header: header, Principal: troupe.Principal{Subject: "ada"}, Runtime: troupe.Options{Authenticate: authenticate}},
			"bob|ada|none": {Header: header, Principal: troupe.Principal{Subject: "ada", Token: troupe.NewSecret("none")}},
		} {
			o.Revision = revision
			srv := troupe.NewServer(mcp.Implementation{Name: "test", Version: "1"}, &troupe.ServerOptions{
				Visible: func(p troupe.Principal, _ troupe.Item) bool { return p.Subject == strings.Split(want, "|")[1] },
			})
			troupe.AddTool(srv, troupe.Tool{Name: "who"}, func(_ context.Context, call *troupe.Call, _ struct{}) (string, error) {
				p := call.Principal()
				return call.Header().Get("X-User") + "|" + p.Subject + "|" + p.Token.Reveal(), nil
			})
			got, err := troupetest.Connect(t, srv, o).CallTool(t.Context(), "who", nil)
			if err != nil || troupetest.Text(got) != want {
				t.Errorf("%s: the caller is %q, %v, want %s", revision, troupetest.Text(got), err, want)
			}
		}
	}
}

// TestCallerThatIsRefused has Authenticate refuse the client: the runtime ends with its error.
func TestCallerThatIsRefused(t *testing.T) {
	no := errors.New("no")
	srv := troupe.NewServer(mcp.Implementation{Name: "test", Version: "1"}, nil)
	rt, err := troupe.New(troupe.Options{Authenticate: func(*http.Request) (troupe.Principal, error) { return troupe.Principal{}, no }})
	if err != nil {
		t.Fatal(err)
	}
	ctx := origin.With(t.Context(), &http.Request{})
	if err := rt.ServePipe(ctx, srv, strings.NewReader(""), io.Discard); !errors.Is(err, no) {
		t.Errorf("it ends with %v", err)
	}
}

// TestGoexit has a handler, and the functions of a client, end their goroutine, as t.FailNow does: the calls end with an
// error, and the client goes on.
func TestGoexit(t *testing.T) {
	t.Parallel()
	for _, revision := range []mcp.Revision{mcp.Revision20251125, mcp.Latest} {
		srv := troupe.NewServer(mcp.Implementation{Name: "t", Version: "1"}, nil)
		troupe.AddTool(srv, troupe.Tool{Name: "exit"}, func(context.Context, *troupe.Call, struct{}) (string, error) { runtime.Goexit(); return "", nil })
		troupe.AddTool(srv, troupe.Tool{Name: "ask"}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			_ = call.Progress(ctx, 1, 2, "")
			_, err := call.Roots(ctx)
			return "", err
		})
		c := troupetest.Connect(t, srv, troupetest.Options{
			Revision: revision,
			Roots:    func(context.Context) ([]mcp.Root, error) { runtime.Goexit(); return nil, nil },
			Progress: func(mcp.ProgressParams) { runtime.Goexit() },
		})
		for range 2 {
			var wire *mcp.Error
			if _, err := c.CallTool(t.Context(), "exit", nil); !errors.As(err, &wire) || wire.Code != mcp.CodeInternalError {
				t.Errorf("%v: a handler: got %v", revision, err)
			}
			r, err := c.CallTool(t.Context(), "ask", nil)
			if err == nil && !r.IsError {
				t.Errorf("%v: an answer: got %+v", revision, r)
			}
		}
		if err := c.Close(); err != nil {
			t.Errorf("%v: close: %v", revision, err)
		}
	}
}
