package troupe_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing/fstest"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

// exampleClient is the client of the examples: it POSTs requests in a session of its
// own and prints what comes back.
type exampleClient struct {
	web     *httptest.Server
	rt      *troupe.Runtime
	session string
	header  http.Header       // sent with every request
	answer  string            // the result it sends to every question of the server
	answers map[string]string // the results that it sends in place of it, by method
	stream  io.Closer         // its standalone stream, if it listens
}

// visit serves srv in memory and begins a session with a client that declares
// the capabilities.
func visit(srv *troupe.Server, capabilities string) *exampleClient {
	rt, err := troupe.New(troupe.Options{})
	if err != nil {
		panic(err)
	}
	rt.Mount("/mcp", srv)
	v := &exampleClient{web: httptest.NewServer(rt), rt: rt}
	v.begin(capabilities)
	return v
}

// begin begins the session.
func (v *exampleClient) begin(capabilities string) {
	res := v.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":` +
		capabilities + `,"clientInfo":{"name":"example","version":"1"}}}`)
	defer res.Body.Close()
	v.session = res.Header.Get("Mcp-Session-Id")
}

func (v *exampleClient) close() {
	if v.stream != nil {
		v.stream.Close() // or the server gives it half a second to read the rest
	}
	if err := v.rt.Close(context.Background()); err != nil {
		panic(err)
	}
	v.web.Close()
}

// end ends the session.
func (v *exampleClient) end() {
	req, _ := http.NewRequest(http.MethodDelete, v.web.URL+"/mcp", nil)
	req.Header.Set("Mcp-Session-Id", v.session)
	res, err := v.web.Client().Do(req)
	if err != nil {
		panic(err)
	}
	res.Body.Close()
}

func (v *exampleClient) post(message string) *http.Response {
	req, _ := http.NewRequest(http.MethodPost, v.web.URL+"/mcp", strings.NewReader(message))
	maps.Copy(req.Header, v.header)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if v.session != "" {
		req.Header.Set("Mcp-Session-Id", v.session)
	}
	res, err := v.web.Client().Do(req)
	if err != nil {
		panic(err)
	}
	return res
}

// request sends one request and prints every message of the response.
func (v *exampleClient) request(method, params string) {
	res := v.post(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`)
	defer res.Body.Close()
	if res.Header.Get("Content-Type") == "application/json" {
		body, _ := io.ReadAll(res.Body)
		v.print(body)
		return
	}
	v.follow(res.Body)
}

// resume goes on behind an event of a stream.
func (v *exampleClient) resume(id string) {
	req, _ := http.NewRequest(http.MethodGet, v.web.URL+"/mcp", nil)
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Mcp-Session-Id", v.session)
	req.Header.Set("Last-Event-ID", id)
	res, err := v.web.Client().Do(req)
	if err != nil {
		panic(err)
	}
	defer res.Body.Close()
	v.follow(res.Body)
}

// follow prints the messages of a stream.
func (v *exampleClient) follow(stream io.Reader) {
	for lines := bufio.NewScanner(stream); lines.Scan(); {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			v.print([]byte(data))
		}
	}
}

func (v *exampleClient) print(message []byte) {
	var m struct {
		ID                    json.RawMessage
		Method                string
		Params, Result, Error json.RawMessage
	}
	if err := json.Unmarshal(message, &m); err != nil {
		panic(err)
	}
	switch {
	case m.Method == "":
		fmt.Println(string(m.Result) + string(m.Error))
	case m.ID == nil:
		fmt.Println(strings.TrimSpace(m.Method + " " + string(m.Params)))
	default:
		fmt.Println(m.Method)
		v.post(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":` + cmp.Or(v.answers[m.Method], v.answer) + `}`).Body.Close()
	}
}

var anyone = mcp.Implementation{Name: "example", Version: "1.0.0"}

func ExampleAddTool() {
	type city struct {
		Name string `json:"name" jsonschema:"of the city"`
	}
	type weather struct {
		City    string  `json:"city"`
		Celsius float64 `json:"celsius"`
	}
	srv := troupe.NewServer(anyone, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "weather", Description: "Says how warm it is."},
		func(_ context.Context, _ *troupe.Call, in city) (weather, error) {
			if in.Name == "" {
				return weather{}, errors.New("which city?") // the model sees this
			}
			return weather{in.Name, 21.5}, nil
		})

	v := visit(srv, `{}`)
	defer v.close()
	v.request("tools/call", `{"name":"weather","arguments":{"name":"Oslo"}}`)
	v.request("tools/call", `{"name":"weather","arguments":{"name":""}}`)
	v.request("tools/call", `{"name":"weather","arguments":{"name":5}}`)
	// Output:
	// {"content":[{"type":"text","text":"{\"city\":\"Oslo\",\"celsius\":21.5}"}],"structuredContent":{"city":"Oslo","celsius":21.5}}
	// {"content":[{"type":"text","text":"which city?"}],"isError":true}
	// {"content":[{"type":"text","text":"invalid arguments: at '/name': got number, want string"}],"isError":true}
}

func ExampleAddTool_bounds() {
	type search struct {
		Text string `json:"text" jsonschema:"what to look for" form:"min=1;max=100"`
		Sort string `json:"sort" form:"enum=new|old;default=new"`
	}
	srv := troupe.NewServer(anyone, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "search"}, func(_ context.Context, _ *troupe.Call, in search) (string, error) {
		return fmt.Sprintf("%s, %s first", in.Text, in.Sort), nil
	})
	fmt.Println(string(srv.Tools()[0].InputSchema))

	v := visit(srv, `{}`)
	defer v.close()
	v.request("tools/call", `{"name":"search","arguments":{"text":"actors"}}`)
	v.request("tools/call", `{"name":"search","arguments":{"text":""}}`)
	// Output:
	// {"type":"object","properties":{"text":{"type":"string","description":"what to look for","minLength":1,"maxLength":100},"sort":{"type":"string","default":"new","enum":["new","old"]}},"required":["text"],"additionalProperties":false}
	// {"content":[{"type":"text","text":"actors, new first"}]}
	// {"content":[{"type":"text","text":"invalid arguments: at '/text': minLength: got 0, want 1"}],"isError":true}
}

func ExampleAddRawTool() {
	srv := troupe.NewServer(anyone, nil)
	troupe.AddRawTool(srv, troupe.Tool{
		Name:        "mirror",
		InputSchema: json.RawMessage(`{"type":"object","required":["x"]}`),
	}, func(_ context.Context, _ *troupe.Call, args json.RawMessage) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: mcp.Contents{mcp.Text(string(args))}}, nil
	})

	v := visit(srv, `{}`)
	defer v.close()
	v.request("tools/call", `{"name":"mirror","arguments":{"x":12345678901234567890}}`)
	// Output:
	// {"content":[{"type":"text","text":"{\"x\":12345678901234567890}"}]}
}

func ExampleAddPrompt() {
	srv := troupe.NewServer(anyone, nil)
	troupe.AddPrompt(srv, troupe.Prompt{
		Name:      "review",
		Arguments: []mcp.PromptArgument{{Name: "code", Required: true}},
	}, func(_ context.Context, _ *troupe.Call, args map[string]string) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{
			{Role: mcp.RoleUser, Content: mcp.Text("Review this: " + args["code"])},
		}}, nil
	})

	v := visit(srv, `{}`)
	defer v.close()
	v.request("prompts/get", `{"name":"review","arguments":{"code":"x := 1"}}`)
	v.request("prompts/get", `{"name":"review"}`)
	// Output:
	// {"messages":[{"role":"user","content":{"type":"text","text":"Review this: x := 1"}}]}
	// {"code":-32602,"message":"missing argument: code"}
}

func ExampleAddResource() {
	srv := troupe.NewServer(anyone, nil)
	troupe.AddResource(srv, mcp.Resource{URI: "config://app", Name: "app", MIMEType: "text/plain"},
		func(_ context.Context, _ *troupe.Call, uri string, _ map[string]string) ([]mcp.ResourceContents, error) {
			return []mcp.ResourceContents{mcp.TextResource(uri, "text/plain", "debug=off")}, nil
		})

	v := visit(srv, `{}`)
	defer v.close()
	v.request("resources/read", `{"uri":"config://app"}`)
	// Output:
	// {"contents":[{"uri":"config://app","mimeType":"text/plain","text":"debug=off"}]}
}

func ExampleAddResourceTemplate() {
	srv := troupe.NewServer(anyone, nil)
	troupe.AddResourceTemplate(srv, mcp.ResourceTemplate{URITemplate: "notes://{id}", Name: "note"},
		func(_ context.Context, _ *troupe.Call, uri string, vars map[string]string) ([]mcp.ResourceContents, error) {
			if vars["id"] != "7" {
				return nil, troupe.ErrNotFound
			}
			return []mcp.ResourceContents{mcp.TextResource(uri, "text/plain", "buy milk")}, nil
		})

	v := visit(srv, `{}`)
	defer v.close()
	v.request("resources/read", `{"uri":"notes://7"}`)
	v.request("resources/read", `{"uri":"notes://8"}`)
	// Output:
	// {"contents":[{"uri":"notes://7","mimeType":"text/plain","text":"buy milk"}]}
	// {"code":-32002,"message":"resource not found","data":{"uri":"notes://8"}}
}

func ExampleCall_Progress() {
	srv := troupe.NewServer(anyone, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "copy", Rerun: troupe.Safe},
		func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			for n := 1.0; n <= 2; n++ {
				if err := call.Progress(ctx, n, 2, ""); err != nil {
					return "", err
				}
			}
			return "copied", nil
		})

	v := visit(srv, `{}`)
	defer v.close()
	v.request("tools/call", `{"name":"copy","_meta":{"progressToken":"t"}}`)
	// Output:
	// notifications/progress {"progressToken":"t","progress":1,"total":2}
	// notifications/progress {"progressToken":"t","progress":2,"total":2}
	// {"content":[{"type":"text","text":"copied"}]}
}

func ExampleCall_Log() {
	srv := troupe.NewServer(anyone, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "work"},
		func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			if err := call.Log(ctx, mcp.LevelDebug, "work", "not sent: debug is below info"); err != nil {
				return "", err
			}
			return "done", call.Log(ctx, mcp.LevelWarning, "work", map[string]int{"left": 3})
		})

	v := visit(srv, `{}`)
	defer v.close()
	v.request("tools/call", `{"name":"work"}`)
	// Output:
	// notifications/message {"level":"warning","logger":"work","data":{"left":3}}
	// {"content":[{"type":"text","text":"done"}]}
}

func ExampleCall_Elicit() {
	form := mcp.FormSchema{
		Properties: []mcp.Property{{Name: "name", Schema: &mcp.StringSchema{Title: "Your name"}}},
		Required:   []string{"name"},
	}
	srv := troupe.NewServer(anyone, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "greet", Needs: mcp.CapClientElicitationForm},
		func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			r, err := call.Elicit(ctx, "Who are you?", form)
			if err != nil {
				return "", err
			}
			if r.Action != mcp.ElicitAccept {
				return "Hello, whoever you are!", nil
			}
			var who struct{ Name string }
			if err := json.Unmarshal(r.Content, &who); err != nil {
				return "", err
			}
			return "Hello, " + who.Name + "!", nil
		})

	v := visit(srv, `{"elicitation":{}}`)
	defer v.close()
	v.answer = `{"action":"accept","content":{"name":"Ada"}}`
	v.request("tools/call", `{"name":"greet"}`)
	// Output:
	// elicitation/create
	// {"content":[{"type":"text","text":"Hello, Ada!"}]}
}

func ExampleCall_Ask() {
	srv := troupe.NewServer(anyone, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "where", Needs: mcp.CapClientRoots},
		func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			answers, err := call.Ask(ctx, troupe.Roots("theirs")) // and others beside it, all at once
			if err != nil {
				return "", err
			}
			roots, err := answers.Roots("theirs")
			if err != nil {
				return "", err
			}
			return roots[0].URI, nil
		})

	v := visit(srv, `{"roots":{}}`)
	defer v.close()
	v.answer = `{"roots":[{"uri":"file:///src"}]}`
	v.request("tools/call", `{"name":"where"}`)
	// Output:
	// roots/list
	// {"content":[{"type":"text","text":"file:///src"}]}
}

func ExampleTool_needs() {
	srv := troupe.NewServer(anyone, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "draw", Needs: mcp.CapClientSampling},
		func(context.Context, *troupe.Call, struct{}) (string, error) { return "", nil })

	v := visit(srv, `{}`) // a client without sampling
	defer v.close()
	v.request("tools/call", `{"name":"draw"}`)
	// Output:
	// {"code":-32600,"message":"the client must declare: sampling","data":{"requiredCapabilities":{"sampling":{}}}}
}

func ExampleServerOptions_complete() {
	srv := troupe.NewServer(anyone, &troupe.ServerOptions{
		Complete: func(_ context.Context, _ *troupe.Call, p mcp.CompleteParams) (mcp.Completion, error) {
			var fits []string
			for _, language := range []string{"go", "python", "perl"} {
				if strings.HasPrefix(language, p.Argument.Value) {
					fits = append(fits, language)
				}
			}
			return mcp.NewCompletion(fits), nil
		},
	})
	troupe.AddPrompt(srv, troupe.Prompt{Name: "explain", Arguments: []mcp.PromptArgument{{Name: "language"}}},
		func(context.Context, *troupe.Call, map[string]string) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{}, nil
		})

	v := visit(srv, `{}`)
	defer v.close()
	v.request("completion/complete", `{"ref":{"type":"ref/prompt","name":"explain"},"argument":{"name":"language","value":"p"}}`)
	// Output:
	// {"completion":{"values":["python","perl"],"total":2,"hasMore":false}}
}

func ExampleOptions_authenticate() {
	keys := map[string]string{"Bearer secret-of-ada": "ada"}
	rt, err := troupe.New(troupe.Options{
		Authenticate: func(r *http.Request) (troupe.Principal, error) {
			user, ok := keys[r.Header.Get("Authorization")]
			if !ok {
				return troupe.Principal{}, errors.New("unknown key")
			}
			return troupe.Principal{Issuer: "keys", Subject: user}, nil
		},
	})
	if err != nil {
		panic(err)
	}
	defer rt.Close(context.Background())
	rt.Mount("/mcp", troupe.NewServer(anyone, nil))

	for _, key := range []string{"", "Bearer secret-of-ada"} {
		r := httptest.NewRequest(http.MethodDelete, "/mcp", nil)
		r.Header.Set("Authorization", key)
		w := httptest.NewRecorder()
		rt.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Body)
	}
	// Output:
	// 401 {"jsonrpc":"2.0","error":{"code":-32600,"message":"Unauthorized"}}
	// 400 {"jsonrpc":"2.0","error":{"code":-32600,"message":"the Mcp-Session-Id header is missing: initialize first"}}
}

// A Runtime is an http.Handler, which a program can add to its own routes. Such a program
// closes the Runtime before its own server.
func ExampleRuntime_Mount() {
	rt, err := troupe.New(troupe.Options{})
	if err != nil {
		panic(err)
	}
	rt.Mount("/mcp/notes", troupe.NewServer(mcp.Implementation{Name: "notes", Version: "1"}, &troupe.ServerOptions{ID: "notes"}))
	rt.Mount("/mcp/mail", troupe.NewServer(mcp.Implementation{Name: "mail", Version: "1"}, &troupe.ServerOptions{ID: "mail"}))

	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "my own page") })
	mux.Handle("/mcp/", rt)
	web := httptest.NewServer(mux)
	defer func() {
		_ = rt.Close(context.Background())
		web.Close()
	}()

	for _, path := range []string{"/", "/mcp/notes", "/mcp/other"} {
		res, err := web.Client().Get(web.URL + path)
		if err != nil {
			panic(err)
		}
		fmt.Println(path, res.StatusCode)
		res.Body.Close()
	}
	// Output:
	// / 200
	// /mcp/notes 406
	// /mcp/other 404
}

func ExampleResult() {
	type sum struct {
		Total int `json:"total"`
	}
	srv := troupe.NewServer(anyone, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "add"},
		func(_ context.Context, _ *troupe.Call, in struct{ A, B int }) (troupe.Result[sum], error) {
			return troupe.Result[sum]{
				Structured: sum{in.A + in.B},
				Content:    mcp.Contents{mcp.Text(fmt.Sprintf("%d and %d make %d.", in.A, in.B, in.A+in.B))},
			}, nil
		})

	v := visit(srv, `{}`)
	defer v.close()
	v.request("tools/call", `{"name":"add","arguments":{"A":1,"B":2}}`)
	// Output:
	// {"content":[{"type":"text","text":"1 and 2 make 3."}],"structuredContent":{"total":3}}
}

func ExampleInputSchema() {
	type city struct {
		Name string `json:"name"`
	}
	inferred, err := troupe.InputSchema[city]()
	if err != nil {
		panic(err)
	}
	// Add what Go types do not say to the schema, and then add the tool.
	var schema map[string]any
	if err := json.Unmarshal(inferred, &schema); err != nil {
		panic(err)
	}
	schema["examples"] = []city{{"Oslo"}}
	full, _ := json.Marshal(schema)
	fmt.Println(string(full))
	// Output:
	// {"additionalProperties":false,"examples":[{"name":"Oslo"}],"properties":{"name":{"type":"string"}},"required":["name"],"type":"object"}
}

func ExampleNewLogHandler() {
	log := slog.New(troupe.NewLogHandler("weather", nil))
	srv := troupe.NewServer(anyone, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "forecast"},
		func(ctx context.Context, _ *troupe.Call, _ struct{}) (string, error) {
			log.WarnContext(ctx, "old data", "hours", 6)
			return "sunny", nil
		})

	v := visit(srv, `{}`)
	defer v.close()
	v.request("tools/call", `{"name":"forecast"}`)
	// Output:
	// notifications/message {"level":"warning","logger":"weather","data":{"msg":"old data","hours":6}}
	// {"content":[{"type":"text","text":"sunny"}]}
}

// A function that has only a context finds the call that it is part of.
func ExampleCallFrom() {
	count := func(ctx context.Context, n, of float64) error {
		if call, ok := troupe.CallFrom(ctx); ok {
			return call.Progress(ctx, n, of, "")
		}
		return nil
	}
	srv := troupe.NewServer(anyone, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "work"},
		func(ctx context.Context, _ *troupe.Call, _ struct{}) (string, error) { return "done", count(ctx, 1, 2) })

	v := visit(srv, `{}`)
	defer v.close()
	v.request("tools/call", `{"name":"work","_meta":{"progressToken":"t"}}`)
	// Output:
	// notifications/progress {"progressToken":"t","progress":1,"total":2}
	// {"content":[{"type":"text","text":"done"}]}
}

func ExampleAddSkill() {
	files := fstest.MapFS{ // in a program, files of a //go:embed
		"refunds/SKILL.md":  {Data: []byte("---\nname: refunds\ndescription: How to refund customers.\n---\nSee letter.md.\n")},
		"refunds/letter.md": {Data: []byte("Dear {name},\n")},
	}
	srv := troupe.NewServer(mcp.Implementation{Name: "shop", Version: "1.0"}, nil)
	troupe.AddSkill(srv, troupe.Skill{Files: files, Dir: "refunds", Path: "shop/refunds"})

	c := visit(srv, `{}`)
	defer c.close()
	c.request("resources/directory/read", `{"uri":"skill://shop/refunds"}`)
	c.request("resources/read", `{"uri":"skill://shop/refunds/letter.md"}`)
	// Output:
	// {"resources":[{"uri":"skill://shop/refunds/SKILL.md","name":"refunds","description":"How to refund customers.","mimeType":"text/markdown","size":75},{"uri":"skill://shop/refunds/letter.md","name":"letter.md","mimeType":"text/markdown","size":13}]}
	// {"contents":[{"uri":"skill://shop/refunds/letter.md","mimeType":"text/markdown","text":"Dear {name},\n"}]}
}

func ExampleAddPage() {
	srv := troupe.NewServer(mcp.Implementation{Name: "drinks", Version: "1.0"}, nil)
	troupe.AddPage(srv, troupe.Page{
		URI: "ui://drinks/votes", Name: "votes", HTML: "<!DOCTYPE html><title>Votes</title>",
		CSP: mcp.UICSP{ResourceDomains: []string{"https://cdn.example.com"}},
	})
	troupe.AddTool(srv, troupe.Tool{Name: "drinks", UI: troupe.UI{Page: "ui://drinks/votes"}},
		func(context.Context, *troupe.Call, struct{}) (string, error) { return "3 want tea, 1 coffee", nil })

	c := visit(srv, `{}`)
	defer c.close()
	c.request("resources/read", `{"uri":"ui://drinks/votes"}`)
	// Output:
	// {"contents":[{"uri":"ui://drinks/votes","mimeType":"text/html;profile=mcp-app","text":"<!DOCTYPE html><title>Votes</title>","_meta":{"ui":{"csp":{"resourceDomains":["https://cdn.example.com"]}}}}]}
}
