package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// goWalker is a session of the Go SDK's client on a walk. It answers what it is asked, and keeps what it is told.
type goWalker struct {
	*mcp.ClientSession
	t      *testing.T
	walk   *walk
	sdk    *mcp.Client
	modern bool
	all    []walked

	mu           sync.Mutex // guards the rest
	answer       *userAnswer
	acknowledged int // streams of changes that the server has taken
	heard        heard
}

// heard is what a client was asked and told since somebody last looked.
type heard struct {
	asked, progress, logs []any
	updated               []string
	changed               bool
}

// walkByGo takes a walk with the Go SDK's client, and returns what came of it, plainly. Of a hosted server it waits until it is known what
// that lists: until then a client waits for a few seconds, and goes on without.
func walkByGo(t *testing.T, w *walk, at *place, version string) []walked {
	t.Helper()
	if at.hosted {
		eventually(t, func() bool {
			g := dialWalker(t, w, at, version)
			list, err := g.ListTools(within(t), nil)
			return err == nil && len(list.Tools) > 0 && g.Close() == nil
		}, func() string { return "the hosted server lists no tools" })
	}
	g := dialWalker(t, w, at, version)
	g.lists()
	for i := range w.Steps {
		if s := &w.Steps[i]; s.taken(g.modern) && (!s.Task || g.modern) { // the SDK knows no tasks
			g.take(s)
		}
	}
	if g.InitializeResult().Capabilities.Resources != nil {
		g.resources("after all")
	}
	return w.plain(g.all)
}

// dialWalker connects the client of a walk.
func dialWalker(t *testing.T, w *walk, at *place, version string) *goWalker {
	t.Helper()
	g := &goWalker{t: t, walk: w, modern: version == stateless}
	options := mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{
			Sampling:    &mcp.SamplingCapabilities{},
			Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}},
		},
		ElicitationHandler:   g.elicit,
		CreateMessageHandler: g.sample,
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			g.note(func(h *heard) { h.progress = append(h.progress, r.Params) })
		},
		LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) {
			g.note(func(h *heard) { h.logs = append(h.logs, r.Params) })
		},
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
			g.note(func(h *heard) { h.updated = append(h.updated, r.Params.URI) })
		},
		ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) {
			g.note(func(h *heard) { h.changed = true })
		},
	}
	if len(w.Roots) > 0 {
		options.Capabilities.RootsV2 = &mcp.RootCapabilities{ListChanged: true}
	}
	g.sdk = mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1.0.0"}, &options)
	for _, r := range w.Roots {
		g.sdk.AddRoots(&mcp.Root{URI: r.URI, Name: r.Name})
	}
	g.sdk.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			if method == "notifications/subscriptions/acknowledged" {
				g.note(func(*heard) { g.acknowledged++ })
			}
			return next(ctx, method, r)
		}
	})
	var err error
	if g.ClientSession, err = g.sdk.Connect(within(t), at.over(), &mcp.ClientSessionOptions{ProtocolVersion: version}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
}

func (g *goWalker) note(change func(*heard)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change(&g.heard)
}

// question notes what the client is asked, and returns what its user says.
func (g *goWalker) question(method string, params any) *userAnswer {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.heard.asked = append(g.heard.asked, map[string]any{"method": method, "params": params})
	if g.answer == nil {
		return &userAnswer{Action: "accept", Content: map[string]any{"name": "Ada"}}
	}
	return g.answer
}

// errRefused is what a user answers who refuses.
var errRefused = &jsonrpc.Error{Code: -31999, Message: "the user has left"}

func (g *goWalker) elicit(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	a := g.question("elicitation/create", r.Params)
	switch {
	case a.Action == "refuse":
		return nil, errRefused
	case r.Params.Mode == "url":
		return &mcp.ElicitResult{Action: a.Action}, nil
	}
	return &mcp.ElicitResult{Action: a.Action, Content: maps.Clone(a.Content)}, nil
}

func (g *goWalker) sample(_ context.Context, r *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	if g.question("sampling/createMessage", r.Params).Action == "refuse" {
		return nil, errRefused
	}
	return &mcp.CreateMessageResult{Role: "assistant", Model: "parrot", Content: r.Params.Messages[0].Content}, nil
}

// say notes what came of a request.
func (g *goWalker) say(of string, result any, err error) {
	g.t.Helper()
	g.add(walked{Of: of, Says: result}, err)
}

// add notes an outcome, or the error in its place.
func (g *goWalker) add(o walked, err error) {
	g.t.Helper()
	if wire, ok := errors.AsType[*jsonrpc.Error](err); ok {
		o.Says = map[string]any{"error": map[string]any{"code": wire.Code, "message": wire.Message, "data": wire.Data}}
	} else if err != nil {
		o.Says = map[string]any{"error": err.Error()}
	}
	data, err := json.Marshal(o)
	if err != nil {
		g.t.Fatal(err)
	}
	o = walked{}
	if err := json.Unmarshal(data, &o); err != nil {
		g.t.Fatal(err)
	}
	g.all = append(g.all, o)
}

// lists gets all lists, and what is on them.
func (g *goWalker) lists() {
	ctx, about := within(g.t), g.InitializeResult()
	g.say("about", map[string]any{"serverInfo": about.ServerInfo, "instructions": about.Instructions}, nil)
	tools, err := g.ListTools(ctx, nil)
	g.say("tools", tools, err)
	if about.Capabilities.Prompts != nil {
		list, err := g.ListPrompts(ctx, nil)
		g.say("prompts", list, err)
		for _, p := range list.Prompts {
			args := g.walk.Prompts[p.Name]
			if args == nil && len(p.Arguments) > 0 {
				g.t.Errorf("the walk has no arguments for the prompt %s", p.Name)
			}
			got, err := g.GetPrompt(ctx, &mcp.GetPromptParams{Name: p.Name, Arguments: args})
			g.say("prompt "+p.Name, got, err)
			got, err = g.GetPrompt(ctx, &mcp.GetPromptParams{Name: p.Name, Arguments: map[string]string{}})
			g.say("prompt "+p.Name+" without arguments", got, err)
			for _, a := range p.Arguments {
				context := maps.Clone(args)
				delete(context, a.Name)
				g.complete(&mcp.CompleteReference{Type: "ref/prompt", Name: p.Name}, a.Name, context)
			}
		}
	}
	if about.Capabilities.Resources == nil {
		return
	}
	g.resources("")
	templates, err := g.ListResourceTemplates(ctx, nil)
	g.say("templates", templates, err)
	for _, template := range templates.ResourceTemplates {
		before, rest, _ := strings.Cut(template.URITemplate, "{")
		name, after, _ := strings.Cut(rest, "}")
		for _, value := range g.walk.values(name) {
			g.read(before + value + after)
		}
		g.complete(&mcp.CompleteReference{Type: "ref/resource", URI: template.URITemplate}, name, nil)
	}
	for _, uri := range g.walk.Reads {
		g.read(uri)
	}
}

// values are those of an argument or a variable.
func (w *walk) values(name string) []string {
	if values := w.Values[name]; len(values) > 0 {
		return values
	}
	return []string{""}
}

// resources gets the list of resources, and each of them.
func (g *goWalker) resources(when string) {
	list, err := g.ListResources(within(g.t), nil)
	g.say(strings.TrimSpace("resources "+when), list, err)
	for _, r := range list.Resources {
		if when == "" || !slices.ContainsFunc(g.all, func(o walked) bool { return o.Of == "resource "+r.URI }) {
			g.read(r.URI)
		}
	}
}

func (g *goWalker) read(uri string) {
	got, err := g.ReadResource(within(g.t), &mcp.ReadResourceParams{URI: uri})
	g.say("resource "+uri, got, err)
}

func (g *goWalker) complete(ref *mcp.CompleteReference, name string, context map[string]string) {
	if g.InitializeResult().Capabilities.Completions == nil {
		return
	}
	for _, value := range g.walk.values(name) {
		p := &mcp.CompleteParams{Ref: ref, Argument: mcp.CompleteParamsArgument{Name: name, Value: value}}
		if len(context) > 0 {
			p.Context = &mcp.CompleteContext{Arguments: context}
		}
		got, err := g.Complete(within(g.t), p)
		g.say(fmt.Sprintf("completion %s%s %s %q", ref.Name, ref.URI, name, value), got, err)
	}
}

// take takes a step, and waits for what comes of it.
func (g *goWalker) take(s *walkStep) {
	ctx := within(g.t)
	g.note(func(*heard) { g.answer = s.Answer })
	result, err := any(struct{}{}), error(nil)
	switch {
	case s.Call != "":
		result, err = g.call(ctx, s)
	case s.Subscribe != "":
		var before int
		g.note(func(*heard) { before = g.acknowledged })
		if err = g.Subscribe(ctx, &mcp.SubscribeParams{URI: s.Subscribe}); g.modern && err == nil {
			eventually(g.t, func() (taken bool) {
				g.note(func(*heard) { taken = g.acknowledged > before })
				return taken
			}, func() string { return "nobody takes the subscription to " + s.Subscribe })
		}
	case s.Unsubscribe != "":
		err = g.Unsubscribe(ctx, &mcp.UnsubscribeParams{URI: s.Unsubscribe})
	case s.Level != "":
		err = g.SetLoggingLevel(ctx, &mcp.SetLoggingLevelParams{Level: mcp.LoggingLevel(s.Level)})
	case s.AddRoot != nil:
		g.sdk.AddRoots(&mcp.Root{URI: s.AddRoot.URI, Name: s.AddRoot.Name})
	}
	var h heard
	var logs []any
	eventually(g.t, func() bool {
		g.note(func(all *heard) { h = *all })
		logs = s.logsIn(h.logs)
		updated := !slices.ContainsFunc(s.Updated, func(uri string) bool { return !slices.Contains(h.updated, uri) })
		there := len(h.progress) >= s.Progress && len(logs) == len(s.Logs) && updated && (h.changed || !s.Changed)
		if !there && s.Again {
			result, err = g.call(ctx, s)
		}
		return there
	}, func() string {
		return fmt.Sprintf("%s is answered with %s, %v, and there came only %+v", s.name(), asJSON(result), err, h)
	})
	g.note(func(all *heard) { *all = heard{logs: all.logs} })
	g.add(walked{Of: s.name(), Says: result, Asked: h.asked, Progress: h.progress[:s.Progress], Logs: logs, Updated: s.Updated}, err)
}

// call calls the tool of a step.
func (g *goWalker) call(ctx context.Context, s *walkStep) (*mcp.CallToolResult, error) {
	params := &mcp.CallToolParams{Name: s.Call, Arguments: s.Args, Meta: mcp.Meta{}}
	if s.Args == nil { // a nil map would be null on the wire
		params.Arguments = map[string]any{}
	}
	if s.Progress > 0 {
		params.SetProgressToken("mine")
	}
	if len(s.Logs) > 0 && g.modern {
		params.Meta[mcp.MetaKeyLogLevel] = "debug"
	}
	return g.CallTool(ctx, params)
}

// logsIn returns the log messages that a step waits for, as far as they are among all.
func (s *walkStep) logsIn(all []any) (found []any) {
	for _, part := range s.Logs {
		if i := slices.IndexFunc(all, func(one any) bool { return strings.Contains(asJSON(one.(*mcp.LoggingMessageParams).Data), part) }); i >= 0 {
			found = append(found, all[i])
		}
	}
	return found
}
