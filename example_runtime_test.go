package troupe_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/operator"
	"github.com/troupe-run/troupe/test/kit/issuer"
)

func ExampleRevisions() {
	fmt.Println(troupe.Revisions())
	// Output:
	// [2024-11-05 2025-03-26 2025-06-18 2025-11-25 2026-07-28]
}

// A client that would take the newest revision begins a session, which outlives the process.
func ExampleOptions_revisions() {
	rt, err := troupe.New(troupe.Options{Revisions: []mcp.Revision{mcp.Revision20250618, mcp.Revision20251125}})
	if err != nil {
		panic(err)
	}
	defer rt.Close(context.Background())
	srv := troupe.NewServer(anyone, nil)
	rt.Mount("/mcp", srv)
	fmt.Println(srv.Revisions())
	_, err = troupe.New(troupe.Options{Revisions: []mcp.Revision{mcp.Revision20251125, mcp.Revision20251125}})
	fmt.Println(err)
	// Output:
	// [2025-06-18 2025-11-25]
	// troupe: Options.Revisions: 2025-11-25 comes twice
}

// A client's session goes on in the next process on the same directory.
func ExampleOptions_dir() {
	dir, err := os.MkdirTemp("", "troupe")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	serve := func(session string) *exampleClient {
		rt, err := troupe.New(troupe.Options{Dir: dir})
		if err != nil {
			panic(err)
		}
		srv := troupe.NewServer(anyone, nil)
		troupe.AddTool(srv, troupe.Tool{Name: "greet"},
			func(context.Context, *troupe.Call, struct{}) (string, error) { return "Hello!", nil })
		rt.Mount("/mcp", srv)
		return &exampleClient{web: httptest.NewServer(rt), rt: rt, session: session}
	}

	first := serve("")
	first.begin(`{}`)
	first.close()
	second := serve(first.session)
	defer second.close()
	second.request("tools/call", `{"name":"greet"}`)
	// Output:
	// {"content":[{"type":"text","text":"Hello!"}]}
}

// A process ends in the middle of a scan. The next one on the same directory goes on where the first was, once the client comes back.
func ExampleStep() {
	dir, err := os.MkdirTemp("", "troupe")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	third := make(chan struct{})
	serve := func(session string) *exampleClient {
		rt, err := troupe.New(troupe.Options{Dir: dir})
		if err != nil {
			panic(err)
		}
		srv := troupe.NewServer(anyone, nil)
		troupe.AddTool(srv, troupe.Tool{Name: "scan", Rerun: troupe.Safe}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			for i := 1; i <= 3; i++ {
				if _, err := troupe.Step(ctx, call, fmt.Sprint("tick ", i), func(ctx context.Context) (int, error) {
					if i == 3 && call.Attempt() == 1 {
						close(third)
						<-ctx.Done() // the process ends here
						return 0, context.Cause(ctx)
					}
					fmt.Printf("tick %d in run %d\n", i, call.Attempt())
					return i, nil
				}); err != nil {
					return "", err
				}
			}
			return "scanned", nil
		})
		rt.Mount("/mcp", srv)
		return &exampleClient{web: httptest.NewServer(rt), rt: rt, session: session}
	}

	first := serve("")
	first.begin(`{}`)
	res := first.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"scan"}}`)
	lines, id, found := bufio.NewScanner(res.Body), "", false
	for !found && lines.Scan() { // of the first event
		id, found = strings.CutPrefix(lines.Text(), "id: ")
	}
	<-third
	first.close()
	res.Body.Close()
	second := serve(first.session)
	defer second.close()
	second.resume(id)
	// Output:
	// tick 1 in run 1
	// tick 2 in run 1
	// tick 3 in run 2
	// {"content":[{"type":"text","text":"scanned"}]}
}

// Each line of the input is a message, and so is each of the output. A program that
// a client starts uses ServeStdio instead.
func ExampleRuntime_ServePipe() {
	srv := troupe.NewServer(anyone, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "greet"},
		func(context.Context, *troupe.Call, struct{}) (string, error) { return "Hello!", nil })
	rt, err := troupe.New(troupe.Options{})
	if err != nil {
		panic(err)
	}
	in := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"greet"}}
`)
	var out strings.Builder
	if err := rt.ServePipe(context.Background(), srv, in, &out); err != nil { // until the input ends
		panic(err)
	}
	fmt.Println(strings.Split(out.String(), "\n")[1])
	// Output:
	// {"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"Hello!"}]}}
}

// A server can be unmounted while the Runtime serves.
func ExampleRuntime_Unmount() {
	v := visit(troupe.NewServer(anyone, nil), `{}`)
	defer v.close()
	v.request("ping", `{}`)
	fmt.Println(v.rt.Unmount("/mcp"), v.rt.Unmount("/mcp"))
	fmt.Println(v.post(`{"jsonrpc":"2.0","id":2,"method":"ping"}`).Status)
	// Output:
	// {}
	// true false
	// 404 Not Found
}

// A server with limits of its own; the limits that it leaves out are those of Options.
func ExampleLimits() {
	srv := troupe.NewServer(anyone, &troupe.ServerOptions{Limits: troupe.Limits{CallRate: 1. / 60, CallBurst: 1}})
	troupe.AddTool(srv, troupe.Tool{Name: "greet"},
		func(context.Context, *troupe.Call, struct{}) (string, error) { return "Hello!", nil })

	v := visit(srv, `{}`)
	defer v.close()
	for range 2 {
		res := v.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet"}}`)
		fmt.Println("refused:", res.Header.Get("Retry-After") != "")
	}
	// Output:
	// refused: false
	// refused: true
}

func ExampleOptions_middleware() {
	rt, err := troupe.New(troupe.Options{Middleware: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Server", "mine")
			next.ServeHTTP(w, r)
		})
	}})
	if err != nil {
		panic(err)
	}
	defer rt.Close(context.Background())
	rt.Mount("/mcp", troupe.NewServer(anyone, nil))
	w := httptest.NewRecorder()
	rt.ServeHTTP(w, httptest.NewRequest(http.MethodOptions, "/mcp", nil))
	fmt.Println(w.Header().Get("Server"))
	// Output:
	// mine
}

func ExampleCall_Principal() {
	rt, err := troupe.New(troupe.Options{Authenticate: func(r *http.Request) (troupe.Principal, error) {
		return troupe.Principal{Issuer: "example", Subject: "ada"}, nil // a real one looks at r
	}})
	if err != nil {
		panic(err)
	}
	srv := troupe.NewServer(anyone, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "whoami"},
		func(_ context.Context, call *troupe.Call, _ struct{}) (string, error) {
			return call.Principal().Subject, nil
		})
	rt.Mount("/mcp", srv)
	v := &exampleClient{web: httptest.NewServer(rt), rt: rt}
	defer v.close()
	v.begin(`{}`)
	v.request("tools/call", `{"name":"whoami"}`)
	// Output:
	// {"content":[{"type":"text","text":"ada"}]}
}

// A handler gets the values of a middleware's context, and the principal of Authenticate.
func ExampleCall_Header() {
	type region struct{}
	rt, err := troupe.New(troupe.Options{
		Middleware: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), region{}, "eu-west")))
			})
		},
		Authenticate: func(r *http.Request) (troupe.Principal, error) {
			token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			if !ok {
				return troupe.Principal{}, &troupe.AuthError{Challenge: `Bearer resource_metadata="https://example.com/meta"`}
			}
			return troupe.Principal{Issuer: "example", Subject: "ada", Token: troupe.NewSecret(token)}, nil
		},
		HTTP: troupe.HTTPOptions{StoredHeaders: []string{"Accept-Language"}}, // a call that runs again after a crash has it, too
	})
	if err != nil {
		panic(err)
	}
	srv := troupe.NewServer(anyone, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "greet", Rerun: troupe.Safe},
		func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			return fmt.Sprint(call.Header().Get("Accept-Language"), " ", ctx.Value(region{}), " ", len(call.Principal().Token.Reveal())), nil
		})
	rt.Mount("/mcp", srv)
	v := &exampleClient{web: httptest.NewServer(rt), rt: rt, header: http.Header{"Authorization": {"Bearer secret"}, "Accept-Language": {"nb"}}}
	defer v.close()
	v.begin(`{}`)
	v.request("tools/call", `{"name":"greet"}`)
	// Output:
	// {"content":[{"type":"text","text":"nb eu-west 6"}]}
}

// Redact keeps secrets out of the log messages of every server.
func ExampleOptions_redact() {
	rt, err := troupe.New(troupe.Options{Redact: func(m *troupe.LogMessage) bool {
		if text, ok := m.Data.(string); ok {
			m.Data = strings.ReplaceAll(text, "hunter2", "***")
		}
		return m.Logger != "internal" // clients do not get this logger's messages
	}})
	if err != nil {
		panic(err)
	}
	srv := troupe.NewServer(anyone, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "login"}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
		return "in", call.Log(ctx, mcp.LevelInfo, "login", "with the password hunter2")
	})
	rt.Mount("/mcp", srv)
	v := &exampleClient{web: httptest.NewServer(rt), rt: rt}
	defer v.close()
	v.begin(`{}`)
	v.request("tools/call", `{"name":"login"}`)
	// Output:
	// notifications/message {"level":"info","logger":"login","data":"with the password ***"}
	// {"content":[{"type":"text","text":"in"}]}
}

// Serve listens, answers /healthz and /readyz, and drains when its context ends.
func ExampleRuntime_Serve() {
	rt, err := troupe.New(troupe.Options{Listen: "127.0.0.1:0", DrainDelay: -1})
	if err != nil {
		panic(err)
	}
	rt.Mount("/mcp", troupe.NewServer(anyone, nil))
	ln, err := rt.Listen() // to know the port; otherwise rt.Serve(ctx) is enough
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- rt.ServeOn(ctx, ln) }()

	res, err := http.Get("http://" + ln.Addr().String() + "/readyz")
	if err != nil {
		panic(err)
	}
	fmt.Println(res.Status)
	res.Body.Close()
	stop()
	fmt.Println(<-served)
	// Output:
	// 200 OK
	// <nil>
}

// Serve answers one more path, with the limits and the drain of all others.
func ExampleHTTPOptions_handler() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/oauth-protected-resource/mcp", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"resource":"https://example.com/mcp","authorization_servers":["https://login.example.com"]}`)
	})
	rt, err := troupe.New(troupe.Options{Listen: "127.0.0.1:0", DrainDelay: -1, HTTP: troupe.HTTPOptions{Handler: mux}})
	if err != nil {
		panic(err)
	}
	rt.Mount("/mcp", troupe.NewServer(anyone, nil))
	ln, err := rt.Listen()
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- rt.ServeOn(ctx, ln) }()

	res, err := http.Get("http://" + ln.Addr().String() + "/.well-known/oauth-protected-resource/mcp")
	if err != nil {
		panic(err)
	}
	fmt.Println(res.Status)
	res.Body.Close()
	stop()
	fmt.Println(<-served)
	// Output:
	// 200 OK
	// <nil>
}

// An operator's page of the program ends a call that does not end by itself. The client has an answer at once.
func ExampleRuntime_Operator() {
	rt, err := troupe.New(troupe.Options{})
	if err != nil {
		panic(err)
	}
	srv := troupe.NewServer(anyone, nil)
	begun := make(chan struct{})
	troupe.AddTool(srv, troupe.Tool{Name: "report"}, func(ctx context.Context, _ *troupe.Call, _ struct{}) (string, error) {
		close(begun)
		<-ctx.Done()
		return "", context.Cause(ctx) // troupe.ErrCalledOff
	})
	rt.Mount("/mcp", srv)
	v := &exampleClient{web: httptest.NewServer(rt), rt: rt}
	defer v.close()
	v.begin(`{}`)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		v.request("tools/call", `{"name":"report"}`)
	}()
	<-begun

	ctx, o := context.Background(), rt.Operator()
	page, err := o.Calls(ctx, operator.Query{Server: "/mcp"})
	if err != nil {
		panic(err)
	}
	for _, call := range page.Calls {
		fmt.Println(call.State, call.Method, call.Target, call.Tenant)
		if _, err := o.CancelCall(ctx, call.ID); err != nil && err != operator.ErrNoCall { // it may have ended meanwhile
			panic(err)
		}
	}
	<-answered
	// Output:
	// running tools/call report anon
	// {"code":-32010,"message":"an operator has ended this call; whether it took effect is unknown"}
}

// A program with an http.Server of its own drains before it closes, so that a call in flight
// gets its response.
func ExampleRuntime_Drain() {
	rt, err := troupe.New(troupe.Options{DrainDelay: -1}) // no load balancer has to notice
	if err != nil {
		panic(err)
	}
	srv := troupe.NewServer(anyone, nil)
	begun := make(chan struct{})
	troupe.AddTool(srv, troupe.Tool{Name: "copy"},
		func(ctx context.Context, _ *troupe.Call, _ struct{}) (string, error) {
			close(begun)
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
			return "copied", ctx.Err()
		})
	rt.Mount("/mcp", srv)
	v := &exampleClient{web: httptest.NewServer(rt), rt: rt}
	v.begin(`{}`)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		v.request("tools/call", `{"name":"copy"}`)
	}()
	<-begun

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fmt.Println("ready:", rt.Ready() == nil)
	drained := rt.Drain(ctx) // at SIGTERM
	<-answered
	fmt.Println("ready:", rt.Ready() == nil)
	fmt.Println(errors.Join(drained, rt.Close(ctx), v.web.Config.Shutdown(ctx)))
	// Output:
	// ready: true
	// {"content":[{"type":"text","text":"copied"}]}
	// ready: false
	// <nil>
}

// A server takes the access tokens of an authorization server, and tells clients which that is.
func ExampleOptions_auth() {
	id := issuer.Start() // stands for https://id.example.com
	defer id.Close()

	rt, err := troupe.New(troupe.Options{
		Auth: &auth.Config{
			Issuers:   []auth.Issuer{{URL: id.URL, Audiences: []string{"https://mcp.example.com/mcp"}}},
			PublicURL: "https://mcp.example.com",
		},
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close(context.Background())
	srv := troupe.NewServer(mcp.Implementation{Name: "files", Version: "1"}, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "whoami"}, func(_ context.Context, call *troupe.Call, _ struct{}) (string, error) {
		p := call.Principal()
		return p.Subject + " by way of " + p.Client, nil
	})
	rt.Mount("/mcp", srv)

	call := func(token string) {
		r := httptest.NewRequest("POST", "http://mcp.example.com/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"whoami","arguments":{},`+
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`))
		for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "whoami"} {
			r.Header.Set(name, value)
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		w := httptest.NewRecorder()
		rt.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("WWW-Authenticate"), strings.Contains(w.Body.String(), "alice by way of editor"))
	}
	call("")
	call(id.Token("alice", "https://mcp.example.com/mcp", nil))
	// Output:
	// 401 Bearer resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp" false
	// 200  true
}

// A program takes the tokens of a further authorization server while it runs. Settings that cannot be used change nothing.
func ExampleRuntime_SetAuth() {
	first, second := issuer.Start(), issuer.Start() // stand for https://id.example.com and https://login.example.com
	defer first.Close()
	defer second.Close()

	settings := auth.Config{Issuers: []auth.Issuer{{URL: first.URL}}, PublicURL: "https://mcp.example.com"}
	rt, err := troupe.New(troupe.Options{Auth: &settings, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close(context.Background())
	rt.Mount("/mcp", troupe.NewServer(mcp.Implementation{Name: "files", Version: "1"}, nil))

	status := func(id *issuer.Issuer) int {
		r := httptest.NewRequest("POST", "http://mcp.example.com/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Authorization", "Bearer "+id.Token("alice", "https://mcp.example.com/mcp", nil))
		w := httptest.NewRecorder()
		rt.ServeHTTP(w, r)
		return w.Code
	}
	fmt.Println(status(first), status(second))
	settings.Issuers = append(settings.Issuers, auth.Issuer{URL: second.URL})
	fmt.Println(rt.SetAuth(&settings), status(first), status(second))
	fmt.Println(rt.SetAuth(&auth.Config{PublicURL: "https://mcp.example.com"}), status(first), status(second))
	// Output:
	// 200 401
	// <nil> 200 200
	// troupe: SetAuth: Auth.Issuers is empty, and APIKeys is nil 200 200
}
