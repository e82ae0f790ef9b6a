package hosting_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/backend"
	"github.com/troupe-run/troupe/internal/backend/listing"
	"github.com/troupe-run/troupe/internal/bubble"
	"github.com/troupe-run/troupe/internal/hosting"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/upstream"
	"github.com/troupe-run/troupe/mcp"
)

// echoing is a server with one backend that has the tool echo and does as handle says.
func echoing(handle func(ctx context.Context, q hosting.Asked) (upstream.Response, error)) (*hosting.Server, *fake) {
	f := &fake{call: func(ctx context.Context, _ string, _ backend.Caller, q hosting.Asked) (upstream.Response, error) {
		return handle(ctx, q)
	}}
	f.set("one", toolsOf("echo"))
	return alone(f), f
}

const echo = `{"name":"echo","arguments":{}}`

// TestParams changes the name in the params of the client, and takes out what is between it and us.
func TestParams(t *testing.T) {
	t.Parallel()
	var got hosting.Asked
	f := &fake{call: func(_ context.Context, _ string, _ backend.Caller, q hosting.Asked) (upstream.Response, error) {
		got = q
		return complete(`{}`), nil
	}}
	f.set("a", catalogue(mcp.Latest, []string{`{"name":"echo","inputSchema":{"type":"object","properties":{"city":{"type":"string","x-mcp-header":"City"}}}}`}, []string{`{"name":"greet"}`}, []string{`{"uri":"x://1"}`}, nil))
	s := serve(f, hosting.Backend{Name: "a", URL: true, Options: host.Options{PassHeaders: []string{"x-tenant"}}})
	for _, tt := range []struct {
		of           listing.Of
		method, in   string
		want, header string
	}{
		{listing.Tools, mcp.MethodToolsCall, `{"odd":[1, 2],"name":"a__echo","arguments":{"name":"a__echo","city":"Bern"},"_meta":{"traceparent":"00-1"}}`, `{"odd":[1, 2],"name":"echo","arguments":{"name":"a__echo","city":"Bern"},"_meta":{"traceparent":"00-1"}}`, "Bern"},
		{listing.Tools, mcp.MethodToolsCall, `{"name":"a__echo","requestState":"s","inputResponses":{"k":{}},"task":{"ttl":1}}`, `{"name":"echo"}`, ""},
		{listing.Prompts, mcp.MethodPromptsGet, `{"name":"a__greet","arguments":{}}`, `{"name":"greet","arguments":{}}`, ""},
		{listing.Resources, mcp.MethodResourcesRead, `{"uri":"x://1", "more":1}`, `{"uri":"x://1", "more":1}`, ""},
	} {
		q := request(t, s, callerOf(""), &client{}, tt.of, tt.method, tt.in)
		q.Header = http.Header{"X-Tenant": {"t"}, "Authorization": {"Bearer secret"}}
		if _, err := s.Call(t.Context(), q); err != nil {
			t.Error(err)
		}
		if string(got.Params) != tt.want || got.Method != tt.method {
			t.Errorf("%s %s\nwant %s", got.Method, got.Params, tt.want)
		}
		if got.Header.Get("Mcp-Param-City") != tt.header || got.Header.Get("X-Tenant") != "t" || got.Header.Get("Authorization") != "" {
			t.Errorf("headers: %v", got.Header)
		}
	}
	item, _ := s.FindItem(callerOf(""), listing.Prompts, "a__greet")
	q := request(t, s, callerOf(""), &client{}, listing.Tools, mcp.MethodToolsCall, `{"name":"a__echo"}`)
	m := *q.Message
	m.Method, m.Params = []byte(mcp.MethodCompletionComplete), []byte(`{"ref":{"type":"ref/prompt","name":"a__greet"},"argument":{"name":"who","value":"a"}}`)
	q.Item, q.Message = item, &m
	if _, err := s.Call(t.Context(), q); err != nil || string(got.Params) != `{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":"a"}}` {
		t.Errorf("%s, %v", got.Params, err)
	}
}

// TestSaidBeforeTheAnswer sends what a backend says in its order, and before the call has returned, however slow the client is.
func TestSaidBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	to := &client{token: `"mine"`, slow: make(chan struct{})}
	s, _ := echoing(func(_ context.Context, q hosting.Asked) (upstream.Response, error) {
		q.Progress([]byte(`{"progressToken":7,"progress":1,"total":2,"message":"half"}`))
		q.Heard(hosting.Said{Method: mcp.NotifyMessage, Params: []byte(`{"level":"info","data":1}`)})
		q.Heard(hosting.Said{Method: mcp.NotifyToolsListChanged})
		q.Heard(hosting.Said{Method: "notifications/acme", Params: []byte(`{"x":1}`)})
		q.Heard(hosting.Said{Method: mcp.NotifyElicitationComplete, Params: []byte(`{"elicitationId":"e"}`)})
		q.Progress([]byte(`{"progressToken":7,"progress":2}`))
		q.Progress([]byte(`{"progressToken":7,"progress":"no"}`))
		return complete(`{"content":[]}`), nil
	})
	done := make(chan error, 1)
	go func() {
		_, err := call(context.Background(), t, s, callerOf("s"), to, echo)
		done <- err
	}()
	for range 5 {
		select {
		case to.slow <- struct{}{}:
		case err := <-done:
			t.Fatalf("the call has returned before all was sent: %v", err)
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	want := []string{`progress 1 {"progressToken":"mine","progress":1,"total":2,"message":"half"}`, `log {"level":"info","data":1}`, `notifications/acme {"x":1}`, `notifications/elicitation/complete {"elicitationId":"e"}`, `progress 2 {"progressToken":"mine","progress":2}`}
	if got := to.messages(); !slices.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", lines(got...), lines(want...))
	}
}

// TestTooMuchIsSaid drops log messages that a slow client has no room for, says how many, and keeps the newest progress.
func TestTooMuchIsSaid(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		to := &client{token: "1", slow: make(chan struct{})}
		refused := newQuestion()
		s, _ := echoing(func(_ context.Context, q hosting.Asked) (upstream.Response, error) {
			q.Heard(hosting.Said{Method: mcp.NotifyMessage, Params: []byte(`{"level":"info","data":"first"}`)})
			synctest.Wait() // it has left the queue
			for i := range 300 {
				q.Heard(hosting.Said{Method: mcp.NotifyMessage, Params: fmt.Appendf(nil, `{"level":"info","data":%d}`, i)})
			}
			for i := range 300 {
				q.Progress(fmt.Appendf(nil, `{"progress":%d}`, i))
				q.Heard(hosting.Said{Method: mcp.NotifyElicitationComplete, Params: []byte(`{"elicitationId":"dropped"}`)})
			}
			q.Heard(refused.elicits("more?"))
			if to.hits[limits.Said.Row] < 600 {
				t.Errorf("the limit was hit %d times", to.hits[limits.Said.Row])
			}
			close(to.slow)
			return complete(`{"content":[]}`), nil
		})
		if _, err := call(t.Context(), t, s, callerOf("s"), to, echo); err != nil {
			t.Fatal(err)
		}
		got := to.messages()
		if newest := got[len(got)-2]; !strings.HasPrefix(newest, "progress 299 ") {
			t.Errorf("%q came last, want the newest progress", newest)
		}
		logs := 0
		for _, m := range got {
			if strings.HasPrefix(m, "log ") {
				logs++
			}
		}
		if last := got[len(got)-1]; last != fmt.Sprintf("%d messages were dropped", 301-logs) || logs < 250 {
			t.Errorf("%d log messages of 301 were sent, and then %q", logs, last)
		}
		if answer := <-refused.answers; !strings.HasPrefix(answer, "-32603 too many") {
			t.Errorf("the question that had no room: %q", answer)
		}
	})
}

// TestTooManyBytesAreSaid drops what is too large for what waits already.
func TestTooManyBytesAreSaid(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		to := &client{slow: make(chan struct{})}
		large := fmt.Appendf(nil, `{"level":"info","data":%q}`, strings.Repeat("x", 600<<10))
		s, _ := echoing(func(_ context.Context, q hosting.Asked) (upstream.Response, error) {
			q.Heard(hosting.Said{Method: mcp.NotifyMessage, Params: []byte(`{"level":"info","data":"first"}`)})
			synctest.Wait()
			for range 3 {
				q.Heard(hosting.Said{Method: mcp.NotifyMessage, Params: large})
			}
			close(to.slow)
			return complete(`{"content":[]}`), nil
		})
		if _, err := call(t.Context(), t, s, callerOf("s"), to, echo); err != nil {
			t.Fatal(err)
		}
		if got := to.messages(); to.hits[limits.SaidBytes.Row] == 0 || !strings.HasSuffix(got[len(got)-1], " messages were dropped") {
			t.Errorf("the limit was hit %d times", to.hits[limits.SaidBytes.Row])
		}
	})
}

// TestQuestionsOfASession asks each question at once, and hands the answers on as they are.
func TestQuestionsOfASession(t *testing.T) {
	t.Parallel()
	first, second := newQuestion(), newQuestion()
	var mu sync.Mutex
	var keys []string
	both := make(chan struct{})
	to := &client{answer: func(ctx context.Context, qs []actors.Question) ([]actors.Answer, error) {
		mu.Lock()
		keys = append(keys, qs[0].Key)
		if len(keys) == 2 {
			close(both)
		}
		mu.Unlock()
		<-both // neither waits for the other
		if strings.Contains(string(qs[0].Params), "first") {
			return []actors.Answer{{Result: []byte(`{"action" : "accept","content":{"x":1.0}}`)}}, nil
		}
		return []actors.Answer{{Err: mcp.NewError(-1, "the user has said no")}}, nil
	}}
	s, _ := echoing(func(_ context.Context, q hosting.Asked) (upstream.Response, error) {
		if !q.Asks {
			t.Error("the client may not be asked")
		}
		q.Heard(first.elicits("first"))
		q.Heard(second.elicits("second"))
		return complete(fmt.Sprintf(`{"content":[%s,%q]}`, <-first.answers, <-second.answers)), nil
	})
	result, err := call(t.Context(), t, s, callerOf("s"), to, echo)
	if want := `{"content":[{"action" : "accept","content":{"x":1.0}},"-1 the user has said no"]}`; string(result) != want || err != nil {
		t.Errorf("%s, %v\nwant %s", result, err, want)
	}
	if keys[0] == keys[1] || !strings.HasPrefix(keys[0], "elicitation-") {
		t.Errorf("keys: %q", keys)
	}
}

// TestAnswersOfAnEarlierRun has a backend run a call twice. What the second run asks as the first one did, it is answered as that was, if the call may run
// twice, and the client is not asked.
func TestAnswersOfAnEarlierRun(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, method, params string
		size, hits           int
		want                 string
	}{
		{"a prompt", mcp.MethodPromptsGet, `{"name":"greet"}`, 1, 0, "? 1, ? 2, ! 3 | ? 1, ? 2, ? 4, ! 3, ! 5"},
		{"a tool that may not run twice", mcp.MethodToolsCall, echo, 1, 0, "? 1, ? 2, ! 3 | ? 4, ? 5, ? 6, ! 7, ! 8"},
		{"answers that are too large", mcp.MethodPromptsGet, `{"name":"greet"}`, 30 << 10, 4, "? 1, ? 2, ! 3 | ? 1, ? 2, ? 4, ! 5, ! 6"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n := 0
			to := &client{answer: func(context.Context, []actors.Question) ([]actors.Answer, error) {
				n++
				return []actors.Answer{{Result: fmt.Appendf(nil, "%-*d", tt.size, n)}}, nil
			}}
			var got []string
			f := &fake{call: func(_ context.Context, _ string, _ backend.Caller, q hosting.Asked) (upstream.Response, error) {
				for run, questions := range []string{"??!", "???!!"} {
					if run > 0 {
						got = append(got, "|")
					}
					q.Sent()
					for _, text := range strings.Split(questions, "") {
						asked := newQuestion()
						q.Heard(asked.elicits(text))
						got = append(got, text+" "+strings.TrimSpace(<-asked.answers))
					}
				}
				return complete(`{}`), nil
			}}
			f.set("one", catalogue(mcp.Revision20251125, []string{tool("echo")}, []string{`{"name":"greet"}`}, nil, nil))
			of := listing.Tools
			if tt.method == mcp.MethodPromptsGet {
				of = listing.Prompts
			}
			s := alone(f)
			if _, err := s.Call(t.Context(), request(t, s, callerOf("s"), to, of, tt.method, tt.params)); err != nil {
				t.Fatal(err)
			}
			if text := strings.ReplaceAll(strings.Join(got, ", "), ", |, ", " | "); text != tt.want || to.hits[limits.Recall.Row] != tt.hits {
				t.Errorf("got %s and %d hits, want %s and %d", text, to.hits[limits.Recall.Row], tt.want, tt.hits)
			}
		})
	}
}

// TestQuestionsOfOneRound asks a stateless client at once what comes within 25 ms, and then what comes later.
func TestQuestionsOfOneRound(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var rounds []string
		to := &client{answer: func(_ context.Context, qs []actors.Question) ([]actors.Answer, error) {
			var round []string
			answers := make([]actors.Answer, len(qs))
			for i, q := range qs {
				message, _ := codec.Str(codec.Field(q.Params, "message"))
				round = append(round, message)
				answers[i].Result = fmt.Appendf(nil, "%q", message)
			}
			rounds = append(rounds, strings.Join(round, "+"))
			time.Sleep(time.Second) // questions that come meanwhile wait
			return answers, nil
		}}
		s, _ := echoing(func(_ context.Context, q hosting.Asked) (upstream.Response, error) {
			var all []*question
			for i, pause := range []time.Duration{0, 20, 20, 30, 100, 2000} {
				time.Sleep(pause * time.Millisecond)
				one := newQuestion()
				all = append(all, one)
				q.Heard(one.elicits(fmt.Sprint(i)))
			}
			for i, one := range all {
				if got := <-one.answers; got != fmt.Sprintf("%q", fmt.Sprint(i)) {
					t.Errorf("question %d got %s", i, got)
				}
			}
			return complete(`{}`), nil
		})
		if _, err := call(t.Context(), t, s, callerOf(""), to, echo); err != nil {
			t.Fatal(err)
		}
		if want := []string{"0+1+2", "3+4", "5"}; !slices.Equal(rounds, want) {
			t.Errorf("rounds %q, want %q", rounds, want)
		}
	})
}

// TestKeys gives the same question the same key, and no other one.
func TestKeys(t *testing.T) {
	t.Parallel()
	var keys []string
	var mu sync.Mutex
	to := &client{answer: func(_ context.Context, qs []actors.Question) ([]actors.Answer, error) {
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, qs[0].Key)
		return []actors.Answer{{Result: []byte(`{}`)}}, nil
	}}
	s, _ := echoing(func(_ context.Context, q hosting.Asked) (upstream.Response, error) {
		for _, params := range []string{`{"message":"a","requestedSchema":{"type":"object","properties":{}}}`, `{"_meta":{"progressToken":1},"requestedSchema":{"properties":{},"type":"object"},"message":"a"}`, `{"message":"b","requestedSchema":{"type":"object","properties":{}}}`} {
			one := newQuestion()
			q.Heard(hosting.Said{Method: mcp.MethodElicitationCreate, Params: []byte(params), Question: one})
			<-one.answers
		}
		return complete(`{}`), nil
	})
	for range 2 {
		if _, err := call(t.Context(), t, s, callerOf("s"), to, echo); err != nil {
			t.Fatal(err)
		}
	}
	if len(keys) != 6 || keys[0] != keys[1] || keys[0] == keys[2] || !slices.Equal(keys[:3], keys[3:]) {
		t.Errorf("keys: %q", keys)
	}
}

// TestClientLacks refuses what the client has not declared.
func TestClientLacks(t *testing.T) {
	t.Parallel()
	c := callerOf("s")
	c.Declared = mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{Form: mcp.Declared()}, Sampling: &mcp.SamplingCapability{}}
	for _, tt := range []struct{ method, params, want string }{
		{mcp.MethodRootsList, ``, "-32601 the client does not support roots/list"},
		{mcp.MethodElicitationCreate, `{"mode":"url","message":"m","url":"https://x","elicitationId":"1"}`, "-32602 the client has not declared elicitation.url"},
		{mcp.MethodSamplingCreateMessage, `{"messages":[],"maxTokens":1,"tools":[]}`, "-32602 the client has not declared sampling.tools"},
		{"acme/ask", `{}`, "-32601 the client does not support acme/ask"},
	} {
		s, _ := echoing(func(_ context.Context, q hosting.Asked) (upstream.Response, error) {
			one := newQuestion()
			q.Heard(hosting.Said{Method: tt.method, Params: []byte(tt.params), Question: one})
			return complete(fmt.Sprintf("%q", <-one.answers)), nil
		})
		got, err := call(t.Context(), t, s, c, &client{}, echo)
		if string(got) != fmt.Sprintf("%q", tt.want) || err != nil {
			t.Errorf("%s: %s, %v", tt.method, got, err)
		}
	}
	c.Declared = mcp.ClientCapabilities{}
	s, _ := echoing(func(_ context.Context, q hosting.Asked) (upstream.Response, error) {
		if q.Asks {
			t.Error("a client that has declared nothing may be asked")
		}
		return complete(`{}`), nil
	})
	if _, err := call(t.Context(), t, s, c, &client{}, echo); err != nil {
		t.Error(err)
	}
}

// TestQuestionsEnd withdraws questions that the backend takes back, and those that are open when it answers.
func TestQuestionsEnd(t *testing.T) {
	t.Parallel()
	causes := make(chan error, 2)
	asked := make(chan struct{}, 2)
	to := &client{answer: func(ctx context.Context, _ []actors.Question) ([]actors.Answer, error) {
		asked <- struct{}{}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return nil, context.Cause(ctx)
	}}
	for _, c := range []*hosting.Caller{callerOf("s"), callerOf("")} {
		withdrawn, left := newQuestion(), newQuestion()
		s, _ := echoing(func(_ context.Context, q hosting.Asked) (upstream.Response, error) {
			q.Heard(withdrawn.elicits("withdrawn"))
			<-asked
			q.Heard(hosting.Said{Method: mcp.NotifyCancelled, Params: []byte(`{"requestId":1}`)})
			if cause := <-causes; cause == nil || !strings.Contains(cause.Error(), "withdrawn") {
				t.Errorf("a question that was withdrawn ended with %v", cause)
			}
			<-withdrawn.answers
			q.Heard(left.elicits("left"))
			<-asked
			return complete(`{}`), nil
		})
		if _, err := call(t.Context(), t, s, c, to, echo); err != nil {
			t.Error(err)
		}
		if cause := <-causes; cause == nil || !strings.Contains(cause.Error(), "answered the call") {
			t.Errorf("an open question ended with %v", cause)
		}
		if got := <-left.answers; !strings.HasPrefix(got, "-32603 the client has not answered") {
			t.Errorf("the backend got %q", got)
		}
	}
}

// TestInputRequired asks a session what a backend of the newer era needs, and sends the request again with the answers.
func TestInputRequired(t *testing.T) {
	t.Parallel()
	to := &client{answer: func(_ context.Context, qs []actors.Question) ([]actors.Answer, error) {
		answers := make([]actors.Answer, len(qs))
		for i, q := range qs {
			answers[i].Result = fmt.Appendf(nil, `{"action":"accept","content":{"%d":%s}}`, i, codec.Field(q.Params, "message"))
		}
		return answers, nil
	}}
	f := &fake{}
	round := 0
	f.call = func(_ context.Context, _ string, _ backend.Caller, q hosting.Asked) (upstream.Response, error) {
		if round++; round == 1 {
			return upstream.Response{Kind: upstream.InputRequired, Result: fmt.Appendf(nil, `{"resultType":"input_required","requestState":"mine","inputRequests":{"who":{"method":"elicitation/create","params":%s},"roots":{"method":"roots/list"}}}`, form("who?"))}, nil
		}
		return complete(`{"resultType":"complete","content":[],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"x","version":"1"}}}`), nil
	}
	c := toolsOf("echo")
	c.Settled.Revision = mcp.Latest
	f.set("one", c)
	s := serve(f, hosting.Backend{Name: "one", Options: host.Options{Prefix: host.NoPrefix, Roots: host.Roots{List: []mcp.Root{{URI: "file:///srv"}}}}})
	result, err := call(t.Context(), t, s, callerOf("s"), to, echo)
	if string(result) != `{"content":[]}` || err != nil {
		t.Errorf("%s, %v", result, err)
	}
	want := []string{`one tools/call ` + echo, `one tools/call {"name":"echo","arguments":{},"inputResponses":{"roots":{"roots":[{"uri":"file:///srv"}]},"who":{"action":"accept","content":{"0":"who?"}}},"requestState":"mine"}`}
	if got := f.requests(); !slices.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", lines(got...), lines(want...))
	}
}

// TestInputKeys shows a stateless client the keys of the backend, unless another question of the call, or of an earlier run of it, has the key.
func TestInputKeys(t *testing.T) {
	t.Parallel()
	stored := map[string][]byte{}
	run := func(messages ...string) (keys []string) {
		t.Helper()
		to := &client{answer: func(_ context.Context, qs []actors.Question) ([]actors.Answer, error) {
			keys = append(keys, qs[0].Key)
			return []actors.Answer{{Result: []byte(`{"action":"decline"}`)}}, nil
		}}
		s, f := echoing(func(context.Context, hosting.Asked) (upstream.Response, error) {
			if len(messages) == 0 {
				return complete(`{}`), nil
			}
			message := messages[0]
			messages = messages[1:]
			return upstream.Response{Kind: upstream.InputRequired, Result: fmt.Appendf(nil, `{"inputRequests":{"user_name":{"method":"elicitation/create","params":%s}}}`, form(message))}, nil
		})
		q := request(t, s, callerOf(""), to, listing.Tools, mcp.MethodToolsCall, echo)
		q.Remember = func(_ context.Context, name string, value []byte) ([]byte, error) {
			if before, ok := stored[name]; ok {
				return before, nil
			}
			stored[name] = value
			return value, nil
		}
		if _, err := s.Call(t.Context(), q); err != nil {
			t.Error(err)
		}
		for _, got := range f.requests()[1:] {
			if !strings.HasSuffix(got, `"inputResponses":{"user_name":{"action":"decline"}}}`) {
				t.Errorf("sent again: %s", got)
			}
		}
		return keys
	}
	first := run("who?", "and who?", "who?")
	if first[0] != "user_name" || !strings.HasPrefix(first[1], "elicitation-") || first[2] != "user_name" {
		t.Errorf("keys %q", first)
	}
	if again := run("who?"); again[0] != "user_name" {
		t.Errorf("the same question in a later run: %q", again)
	}
	if other := run("delete it?"); !strings.HasPrefix(other[0], "elicitation-") {
		t.Errorf("another question in a later run: %q", other)
	}
}

// TestInputWithoutEnd gives up on a backend that asks again and again.
func TestInputWithoutEnd(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, f := echoing(func(context.Context, hosting.Asked) (upstream.Response, error) {
			return upstream.Response{Kind: upstream.InputRequired, Result: []byte(`{"requestState":"again"}`)}, nil
		})
		to := &client{}
		_, err := call(t.Context(), t, s, callerOf(""), to, echo)
		if wire, ok := errors.AsType[*mcp.Error](err); !ok || wire.Code != mcp.CodeInternalError || len(f.requests()) != 11 || to.hits[limits.BackendRounds.Row] != 1 {
			t.Errorf("%v", err)
		}
	})
}

// TestLeft leaves a call that goes on elsewhere to the next process: it is not cancelled, and its question stays open. Without a key it is given up.
func TestLeft(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "key"} {
		asked, over := make(chan struct{}), make(chan error, 1)
		to := &client{answer: func(ctx context.Context, _ []actors.Question) ([]actors.Answer, error) {
			close(asked)
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}}
		one := newQuestion()
		end := make(chan struct{})
		s, _ := echoing(func(ctx context.Context, q hosting.Asked) (upstream.Response, error) {
			q.Heard(one.elicits("?"))
			select {
			case <-ctx.Done():
			case <-end:
			}
			over <- context.Cause(ctx)
			return upstream.Response{}, context.Cause(ctx)
		})
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			<-asked
			cancel(fmt.Errorf("the end: %w", actors.ErrClosing))
		}()
		q := request(t, s, callerOf("s"), to, listing.Tools, mcp.MethodToolsCall, echo)
		q.Key = key
		if _, err := s.Call(ctx, q); !errors.Is(err, actors.ErrClosing) {
			t.Errorf("%q: %v", key, err)
		}
		close(end)
		if cause := <-over; (cause == nil) != (key != "") {
			t.Errorf("%q: the call ended with %v", key, cause)
		}
		select {
		case got := <-one.answers:
			if key != "" {
				t.Errorf("the question that is left got %s", got)
			}
		default:
			if key == "" {
				t.Error("nobody has refused the question")
			}
		}
	}
}

// TestErrors hands on the errors of a backend as they are, and says why one has not answered.
func TestErrors(t *testing.T) {
	t.Parallel()
	gone := errors.New("cancelled by the client")
	for _, tt := range []struct {
		response upstream.Response
		err      error
		want     string
	}{
		{response: upstream.Response{Kind: upstream.Refused, Error: []byte(`{"code":-32042,"message":"open it","data":{"x": 1.0}}`)}, want: `open it (-32042) {"x": 1.0}`},
		{err: &backend.Error{Backend: "one", Reason: "queue", Text: "too many calls wait for it"}, want: `backend one: too many calls wait for it (-32603) {"backend":"one","reason":"queue","ran":false}`},
		{response: upstream.Response{Kind: upstream.TaskCreated, Result: []byte(`{}`)}, want: "the backend answered with a result of a type that nobody has asked for (-32603) "},
	} {
		s, _ := echoing(func(context.Context, hosting.Asked) (upstream.Response, error) { return tt.response, tt.err })
		_, err := call(t.Context(), t, s, callerOf("s"), &client{}, echo)
		wire, ok := errors.AsType[*mcp.Error](err)
		if !ok || wire.Error()+" "+string(wire.Data) != tt.want {
			t.Errorf("%v %+v, want %s", err, wire, tt.want)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	s, _ := echoing(func(ctx context.Context, _ hosting.Asked) (upstream.Response, error) {
		cancel(gone)
		return upstream.Response{}, context.Cause(ctx)
	})
	if _, err := call(ctx, t, s, callerOf("s"), &client{}, echo); err != gone {
		t.Errorf("the end of the call: %v", err)
	}
}

// TestResults takes out of results what the client's revision does not have, and nothing else.
func TestResults(t *testing.T) {
	t.Parallel()
	modern := `{"resultType":"complete","ttlMs":5,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"x","version":"1"},"own":1},"odd" : 1,"content":[]}`
	for _, tt := range []struct {
		from, to mcp.Revision
		in, want string
	}{
		{mcp.Latest, mcp.Latest, modern, modern},
		{mcp.Latest, mcp.Revision20251125, modern, `{"_meta":{"own":1},"odd":1,"content":[]}`},
		{mcp.Revision20251125, mcp.Latest, `{"content":[ ],"resultType":"input_required","requestState":"leaked","inputRequests":{}}`, `{"content":[ ]}`},
		{mcp.Revision20251125, mcp.Revision20251125, `{"content":[ ],"odd":1}`, `{"content":[ ],"odd":1}`},
		{mcp.Revision20251125, mcp.Revision20241105, `{"content":[{"type":"text","text":"a","odd":1}],"odd":1}`, `{"content":[{"type":"text","text":"a","odd":1}],"odd":1}`},
		{mcp.Revision20251125, mcp.Revision20250326, `{"content":[],"structuredContent":{"a":1}}`, `{"content":[{"type":"text","text":"{\"a\":1}"}]}`},
	} {
		f := &fake{call: func(context.Context, string, backend.Caller, hosting.Asked) (upstream.Response, error) {
			return complete(tt.in), nil
		}}
		c := toolsOf("echo")
		c.Settled.Revision = tt.from
		f.set("one", c)
		caller := callerOf("s")
		caller.Revision = tt.to
		got, err := call(t.Context(), t, alone(f), caller, &client{}, echo)
		if string(got) != tt.want || err != nil {
			t.Errorf("%v to %v: %s, %v\nwant %s", tt.from, tt.to, got, err, tt.want)
		}
	}
}

// TestApart has many callers ask, hear and answer at once: each gets its own.
func TestApart(t *testing.T) {
	t.Parallel()
	s, _ := echoing(func(_ context.Context, q hosting.Asked) (upstream.Response, error) {
		who, _ := codec.Str(codec.Field(codec.Field(q.Params, "arguments"), "who"))
		var answers []string
		for i := range 3 {
			q.Progress(fmt.Appendf(nil, `{"progress":%d,"message":%q}`, i, who))
			q.Heard(hosting.Said{Method: mcp.NotifyMessage, Params: fmt.Appendf(nil, `{"level":"info","data":%q}`, who)})
			one := newQuestion()
			q.Heard(one.elicits(who))
			answers = append(answers, <-one.answers)
		}
		return complete(fmt.Sprintf(`{"content":[%s]}`, strings.Join(answers, ","))), nil
	})
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			who := fmt.Sprintf("caller %d", i)
			to := &client{token: fmt.Sprintf("%q", who), answer: func(_ context.Context, qs []actors.Question) ([]actors.Answer, error) {
				if message, _ := codec.Str(codec.Field(qs[0].Params, "message")); message != who {
					t.Errorf("%s was asked what is for %s", who, message)
				}
				return []actors.Answer{{Result: fmt.Appendf(nil, "%q", who)}}, nil
			}}
			c := callerOf(who)
			if i%2 == 0 {
				c = callerOf("")
			}
			result, err := call(context.Background(), t, s, c, to, fmt.Sprintf(`{"name":"echo","arguments":{"who":%q}}`, who))
			if want := fmt.Sprintf(`{"content":[%[1]q,%[1]q,%[1]q]}`, who); string(result) != want || err != nil {
				t.Errorf("%s got %s, %v", who, result, err)
			}
			for _, m := range to.messages() {
				if !strings.Contains(m, fmt.Sprintf("%q", who)) {
					t.Errorf("%s got %s", who, m)
				}
			}
			if n := len(to.messages()); n != 6 {
				t.Errorf("%s got %d messages", who, n)
			}
		})
	}
	all.Wait()
}
