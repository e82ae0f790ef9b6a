package server_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/troupetest"
)

type shirt struct {
	Name    string    `json:"name" jsonschema:"who gets it" form:"title=Your name;min=1;max=20"`
	Size    string    `json:"size" form:"enum=S|M|L;titles=Small|Medium|Large;default=M"`
	Count   int       `json:"count" form:"min=1;max=10;default=1"`
	Colours []string  `json:"colours,omitempty" form:"enum=red|blue;max=2"`
	Price   *float64  `json:"price"`
	Gift    bool      `json:"gift,omitempty" form:"default=true"`
	Mail    string    `json:"mail,omitempty" form:"format=email"`
	By      time.Time `json:"by,omitzero"`
	Skipped string    `json:"-"`
	_       string
}

const shirtForm = `{"type":"object","properties":{` +
	`"name":{"type":"string","title":"Your name","description":"who gets it","minLength":1,"maxLength":20},` +
	`"size":{"type":"string","oneOf":[{"const":"S","title":"Small"},{"const":"M","title":"Medium"},{"const":"L","title":"Large"}],"default":"M"},` +
	`"count":{"type":"integer","minimum":1,"maximum":10,"default":1},` +
	`"colours":{"type":"array","maxItems":2,"items":{"type":"string","enum":["red","blue"]}},` +
	`"price":{"type":"number"},` +
	`"gift":{"type":"boolean","default":true},` +
	`"mail":{"type":"string","format":"email"},` +
	`"by":{"type":"string","format":"date-time"}},` +
	`"required":["name","size","count"]}`

func TestFormFor(t *testing.T) {
	t.Parallel()
	form, err := troupe.FormFor[shirt]()
	if err != nil {
		t.Fatal(err)
	}
	got, err := form.Raw()
	if err != nil || string(got) != shirtForm {
		t.Errorf("the form is\n%s, %v, want\n%s", got, err, shirtForm)
	}
}

func TestFormsThatAreNone(t *testing.T) {
	t.Parallel()
	refused := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %s", err, want)
		}
	}
	_, err := troupe.FormFor[int]()
	refused(err, "no struct")
	_, err = troupe.FormFor[struct{}]()
	refused(err, "no fields")
	_, err = troupe.FormFor[struct{ shirt }]()
	refused(err, "embedded")
	_, err = troupe.FormFor[struct{ A map[string]string }]()
	refused(err, "no form has a map")
	_, err = troupe.FormFor[struct{ A []string }]()
	refused(err, "needs enum")
	_, err = troupe.FormFor[struct{ A json.Number }]()
	if err != nil {
		t.Errorf("a string by another name: %v", err)
	}
	_, err = troupe.FormFor[struct{ A slog.Level }]()
	refused(err, "JSON or text methods of its own")
	_, err = troupe.FormFor[struct {
		A string `form:"tilte=B"`
	}]()
	refused(err, `"tilte=B"`)
	_, err = troupe.FormFor[struct {
		A bool `form:"min=1"`
	}]()
	refused(err, "has no min")
	_, err = troupe.FormFor[struct {
		A string `form:"enum=a|b;default=c"`
	}]()
	refused(err, "none of the values")
	_, err = troupe.FormFor[struct {
		A string `form:"enum=a|b;titles=A"`
	}]()
	refused(err, "1 titles for 2 values")
	_, err = troupe.FormFor[struct {
		A int `form:"default=1.5"`
	}]()
	refused(err, "no whole number")
	_, err = troupe.FormFor[struct {
		A string `form:"pattern=x"`
	}]()
	refused(err, "a form has no pattern")
}

// TestFormsThatNoAnswerFits checks that a form that no answer could fill in is refused
// when it is made.
func TestFormsThatNoAnswerFits(t *testing.T) {
	t.Parallel()
	refused := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %s", err, want)
		}
	}
	_, err := troupe.FormFor[struct {
		A int `json:"a,string"`
	}]()
	refused(err, "A: its json tag has the option string")
	_, err = troupe.FormFor[struct {
		A int `json:"B"`
		B int
	}]()
	refused(err, `B: another field is "B", too`)
	_, err = troupe.FormFor[struct {
		A int `form:"min=5;max=1"`
	}]()
	refused(err, "A: min=5 is above max=1")
	_, err = troupe.FormFor[struct {
		A string `form:"min=5;max=1"`
	}]()
	refused(err, "A: min=5 is above max=1")
	_, err = troupe.FormFor[struct {
		A string `form:"max=-1"`
	}]()
	refused(err, "A: max=-1 is below the 0")
	_, err = troupe.FormFor[struct {
		A []string `form:"enum=x|y;min=2;max=1"`
	}]()
	refused(err, "A: min=2 is above max=1")
	_, err = troupe.FormFor[struct {
		A []string `form:"enum=x|y;min=3"`
	}]()
	refused(err, "A: min=3 is above the 2")
	_, err = troupe.FormFor[struct {
		A int8 `form:"min=200"`
	}]()
	refused(err, "A: min=200 is above the 127")
	_, err = troupe.FormFor[struct {
		A uint8 `form:"max=-1"`
	}]()
	refused(err, "A: max=-1 is below the 0")
	_, err = troupe.FormFor[struct {
		A int `form:"min=1.2;max=1.8"`
	}]()
	refused(err, "A: no whole number")
	_, err = troupe.FormFor[struct {
		A string `form:"enum=x|x"`
	}]()
	refused(err, `A: its enum has "x" twice`)
	_, err = troupe.FormFor[struct {
		A []string `form:"enum=x|y|x;titles=a|b|c"`
	}]()
	refused(err, `A: its enum has "x" twice`)
	_, err = troupe.FormFor[struct {
		A, B int64
		C    uint64  `form:"min=-3;default=7"`
		D    float32 `form:"min=0.5;max=0.5"`
		E    string  `form:"min=2;max=2;default=äö"`
		F    string  `form:"format=date;default=2026-01-02"`
	}]()
	if err != nil {
		t.Errorf("a form that answers fit: %v", err)
	}
}

func TestDefaultsThatNoAnswerMayHave(t *testing.T) {
	t.Parallel()
	refused := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), " does not fit: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %s", err, want)
		}
	}
	_, err := troupe.FormFor[struct {
		A int `json:"a" form:"min=5;default=1"`
		B int `json:"b"`
	}]()
	refused(err, `the default 1 does not fit: minimum: got 1, want 5`)
	_, err = troupe.FormFor[struct {
		A float64 `json:"a" form:"max=5;default=5.5"`
	}]()
	refused(err, `the default 5.5 does not fit: maximum`)
	_, err = troupe.FormFor[struct {
		A uint `json:"a" form:"default=-1"`
	}]()
	refused(err, `the default -1 does not fit: minimum`)
	_, err = troupe.FormFor[struct {
		A int8 `json:"a" form:"default=999"`
	}]()
	refused(err, `999`)
	_, err = troupe.FormFor[struct {
		A string `json:"a" form:"max=2;default=long"`
	}]()
	refused(err, `the default "long" does not fit: maxLength`)
	_, err = troupe.FormFor[struct {
		A string `json:"a" form:"format=email;default=nobody"`
	}]()
	refused(err, `the default "nobody" does not fit`)
	_, err = troupe.FormFor[struct {
		A []string `json:"a" form:"enum=x|y;min=2;default=x"`
	}]()
	refused(err, `the default ["x"] does not fit: minItems`)
}

// appointment has a field of each format.
type appointment struct {
	Day  string    `json:"day,omitempty" form:"format=date"`
	At   string    `json:"at,omitempty" form:"format=date-time"`
	Till time.Time `json:"till,omitzero"`
	Mail string    `json:"mail,omitempty" form:"format=email"`
	Page *string   `json:"page" form:"format=uri"`
}

func TestAnswersHaveTheirFormat(t *testing.T) {
	troupetest.Test(t, func(t *testing.T) {
		var answer string
		srv := troupe.NewServer(mcp.Implementation{Name: "office", Version: "1"}, nil)
		troupe.AddTool(srv, troupe.Tool{Name: "meet"}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			a, _, err := troupe.ElicitAs[appointment](ctx, call, "When?")
			if err != nil && a != (appointment{}) {
				t.Errorf("%s: the value is %+v", answer, a)
			}
			return "taken", err
		})
		c := troupetest.Connect(t, srv, troupetest.Options{Revision: mcp.LatestLegacy, Elicit: func(context.Context, mcp.ElicitParams) (mcp.ElicitResult, error) {
			return mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(answer)}, nil
		}})
		for _, test := range []struct{ answer, want string }{
			{`{}`, "taken"},
			{`{"day":"2026-02-28","at":"2026-01-02T03:04:05Z","till":"2026-01-02T03:04:05.5+01:00","mail":"ada@example.com","page":"https://example.com/a"}`, "taken"},
			{`{"day":"2026-02-30"}`, "'/day'"},
			{`{"day":"tomorrow"}`, "'/day'"},
			{`{"at":"2026-01-02"}`, "'/at'"},
			{`{"till":"2026-01-02 03:04"}`, "'/till'"},
			{`{"mail":"nobody"}`, "'/mail'"},
			{`{"page":"/a"}`, "'/page'"},
		} {
			answer = test.answer
			got, err := c.CallTool(t.Context(), "meet", nil)
			if err != nil || got.IsError != (test.want != "taken") || !strings.Contains(troupetest.Text(got), test.want) {
				t.Errorf("%s: %q, %v, want %s", answer, troupetest.Text(got), err, test.want)
			}
		}
	})
}

func TestElicitAs(t *testing.T) {
	for _, r := range []mcp.Revision{mcp.LatestLegacy, mcp.Latest} {
		for answer, want := range map[string]string{
			`{"action":"accept","content":{"name":"Ada","size":"L","count":2.0,"colours":["red"],"by":"2026-01-02T03:04:05Z"}}`: "accept Ada L 2 [red] 2026",
			`{"action":"decline"}`: "decline   0 [] 1",
			`{"action":"accept","content":{"name":"Ada","size":"XL","count":2}}`: "'oneOf' failed",
			`{"action":"accept","content":{"name":"Ada","size":"L"}}`:            "missing property 'count'",
			`{"action":"accept"}`: "missing properties",
		} {
			troupetest.Test(t, func(t *testing.T) {
				srv := troupe.NewServer(mcp.Implementation{Name: "shop", Version: "1"}, nil)
				troupe.AddTool(srv, troupe.Tool{Name: "order"}, func(ctx context.Context, call *troupe.Call, _ struct{}) ([]any, error) {
					s, action, err := troupe.ElicitAs[shirt](ctx, call, "Which?")
					return []any{action, s.Name, s.Size, s.Count, s.Colours, s.By.Year()}, err
				})
				c := troupetest.Connect(t, srv, troupetest.Options{Revision: r, Elicit: func(context.Context, mcp.ElicitParams) (r mcp.ElicitResult, err error) {
					return r, json.Unmarshal([]byte(answer), &r)
				}})
				got, err := c.CallTool(t.Context(), "order", nil)
				if err != nil {
					t.Fatal(err)
				}
				flat := strings.NewReplacer(`"`, "", `,`, " ", "null", "[]").Replace(strings.TrimSuffix(strings.TrimPrefix(troupetest.Text(got), "["), "]"))
				if !strings.Contains(flat, want) {
					t.Errorf("%s, %s: %s, want %s", r, answer, flat, want)
				}
			})
		}
	}
}

func TestResult(t *testing.T) {
	troupetest.Test(t, func(t *testing.T) {
		type sum struct {
			Total int `json:"total"`
		}
		srv := troupe.NewServer(mcp.Implementation{Name: "sums", Version: "1"}, nil)
		troupe.AddTool(srv, troupe.Tool{Name: "add"}, func(_ context.Context, _ *troupe.Call, in struct{ A, B int }) (troupe.Result[sum], error) {
			r := troupe.Result[sum]{Structured: sum{in.A + in.B}, Meta: mcp.Meta{"a": mcp.Raw(1)}}
			if in.A > 0 {
				r.Content = mcp.Contents{mcp.Text("a sum")}
			}
			return r, nil
		})
		c := troupetest.Connect(t, srv, troupetest.Options{})
		tools, err := c.Tools(t.Context())
		want, err2 := troupe.OutputSchema[troupe.Result[sum]]()
		if err != nil || err2 != nil || string(tools[0].OutputSchema) != string(want) || !strings.Contains(string(want), `"total":{"type":"integer"}`) {
			t.Errorf("the output schema is %s, %v, want %s, %v", tools[0].OutputSchema, err, want, err2)
		}
		for args, want := range map[string]string{`{"A":1.0,"B":2e0}`: "a sum", `{"A":0,"B":3}`: `{"total":3}`} {
			got, err := c.CallTool(t.Context(), "add", json.RawMessage(args))
			if err != nil || string(got.StructuredContent) != `{"total":3}` || troupetest.Text(got) != want || string(got.Meta["a"]) != "1" {
				t.Errorf("%s: %+v, %v, want %s", args, got, err, want)
			}
		}
	})
}

func TestPointerToAResult(t *testing.T) {
	t.Parallel()
	srv := troupe.NewServer(mcp.Implementation{Name: "sums", Version: "1"}, nil)
	err := troupe.TryAddTool(srv, troupe.Tool{Name: "add"}, func(context.Context, *troupe.Call, struct{}) (*troupe.Result[int], error) {
		return nil, nil
	})
	_, err2 := troupe.OutputSchema[*troupe.Result[int]]()
	for _, err := range []error{err, err2} {
		if err == nil || !strings.Contains(err.Error(), "return a troupe.Result[int], not a pointer to one") {
			t.Errorf("a pointer to a Result: %v", err)
		}
	}
	if len(srv.Tools()) != 0 {
		t.Error("the tool is registered")
	}
}

func TestInferredSchemas(t *testing.T) {
	t.Parallel()
	in, err := troupe.InputSchema[*struct {
		City string `json:"city"`
	}]()
	if want := `{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}`; err != nil || string(in) != want {
		t.Errorf("the input schema is %s, %v, want %s", in, err, want)
	}
	if _, err := troupe.InputSchema[int](); err == nil {
		t.Error("a number is taken for arguments")
	}
	out, err := troupe.OutputSchema[[]string]()
	if err != nil || len(out) == 0 {
		t.Fatalf("the output schema is %s, %v", out, err)
	}
	out[0] = ' '
	if again, err := troupe.OutputSchema[[]string](); err != nil || again[0] != '{' {
		t.Errorf("a caller changed the schema of all: %s, %v", again, err)
	}
}

func TestLogHandler(t *testing.T) {
	for _, r := range mcp.Revisions() {
		troupetest.Test(t, func(t *testing.T) {
			var own strings.Builder
			log := slog.New(troupe.NewLogHandler("shop", slog.NewTextHandler(&own, &slog.HandlerOptions{Level: slog.LevelWarn})))
			srv := troupe.NewServer(mcp.Implementation{Name: "shop", Version: "1"}, nil)
			troupe.AddTool(srv, troupe.Tool{Name: "work"}, func(ctx context.Context, _ *troupe.Call, _ struct{}) (string, error) {
				log.DebugContext(ctx, "hidden")
				log.InfoContext(ctx, "asked", "city", "Oslo")
				log.With("a", 1).WithGroup("g").WarnContext(context.WithoutCancel(ctx), "slow", "b", 2, "level", "x", "time", 3)
				log.Info("of no call")
				return "", nil
			})
			var seen []string
			c := troupetest.Connect(t, srv, troupetest.Options{Revision: r, Log: func(p mcp.LogParams) {
				seen = append(seen, string(p.Level)+" "+p.Logger+" "+string(p.Data))
			}})
			if _, err := c.CallTool(t.Context(), "work", nil); err != nil {
				t.Fatal(err)
			}
			want := `info shop {"msg":"asked","city":"Oslo"}, warning shop {"msg":"slow","a":1,"g":{"b":2,"level":"x","time":3}}`
			if got := strings.Join(seen, ", "); got != want {
				t.Errorf("%s: the client sees\n%s, want\n%s", r, got, want)
			}
			if got := own.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `msg=slow a=1 g.b=2`) {
				t.Errorf("the process logs %s", got)
			}
		})
	}
}

func TestCallFrom(t *testing.T) {
	if call, ok := troupe.CallFrom(t.Context()); ok || call != nil {
		t.Errorf("the context of a test is of the call %v", call)
	}
}

func TestFormsAreTheCallers(t *testing.T) {
	t.Parallel()
	form, _ := troupe.FormFor[shirt]()
	form.Properties[0].Schema.(*mcp.StringSchema).Title = "changed"
	form, _ = troupe.FormFor[shirt]()
	if got, _ := form.Raw(); string(got) != shirtForm {
		t.Errorf("the next form is %s", got)
	}
}

func TestLogAttributesNamedAsMembers(t *testing.T) {
	t.Parallel()
	srv := troupe.NewServer(mcp.Implementation{Name: "x", Version: "1"}, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "t"}, func(ctx context.Context, _ *troupe.Call, _ struct{}) (string, error) {
		slog.New(troupe.NewLogHandler("x", nil)).With("level", slog.LevelWarn).InfoContext(ctx, "hello", "msg", "mine", "level", []int{3})
		bare := slog.New(troupe.NewLogHandler("x", nil))
		bare.InfoContext(ctx, "hello", slog.Group("msg", "a", 1), slog.Group("", slog.Group("msg", "b", 2)))
		bare.With(slog.Group("msg", "a", 1)).InfoContext(ctx, "hello")
		bare.WithGroup("").WithGroup("msg").With("msg", 1).InfoContext(ctx, "hello", "msg", 2)
		bare.With("msg_", 1).InfoContext(ctx, "hello", "msg", 2, "msg__", 3, "msg", 4, "\n", 5, "\n", 6)
		return "", nil
	})
	got := make(chan string, 5)
	c := troupetest.Connect(t, srv, troupetest.Options{Log: func(p mcp.LogParams) { got <- string(p.Data) }})
	if _, err := c.CallTool(t.Context(), "t", nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`{"msg":"hello","level":"WARN","msg_":"mine","level_":[3]}`,
		`{"msg":"hello","msg_":{"a":1},"msg__":{"b":2}}`, `{"msg":"hello","msg_":{"a":1}}`, `{"msg":"hello","msg_":{"msg":1,"msg":2}}`,
		`{"msg":"hello","msg_":1,"msg__":2,"msg___":3,"msg____":4,"\n":5,"\n_":6}`,
	} {
		if got := <-got; got != want {
			t.Errorf("the data is %s, want %s", got, want)
		}
	}
}
