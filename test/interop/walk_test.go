package interop

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// walk says what a client asks of a server. It gets all lists of the server, and each of its prompts and resources; it reads each
// template, has each argument and variable completed, and then takes the steps, in order.
type walk struct {
	Roots   []root                       `json:"roots,omitempty"` // of the client, which has none if this is empty
	Prompts map[string]map[string]string `json:"prompts"`         // arguments, by the prompt
	// Values are those of arguments and variables, by name: each is completed, and put into templates that are read.
	Values map[string][]string `json:"values"`
	Reads  []string            `json:"reads"` // further resources that are read
	Steps  []walkStep          `json:"steps"`

	hidden map[string]string // texts that differ from walk to walk, and what stands for them
}

// walkStep is one thing that a client does, and what it waits for afterwards. What it does is the first of Call, Subscribe, Unsubscribe,
// Level and AddRoot that is there, or nothing.
type walkStep struct {
	Call        string         `json:"call,omitempty"` // the tool
	Args        map[string]any `json:"args,omitempty"`
	Task        bool           `json:"task,omitempty"`   // a client that knows tasks asks for one
	Answer      *userAnswer    `json:"answer,omitempty"` // to what is asked meanwhile; nil is accepted
	Subscribe   string         `json:"subscribe,omitempty"`
	Unsubscribe string         `json:"unsubscribe,omitempty"`
	Level       string         `json:"level,omitempty"` // of the session's log messages
	AddRoot     *root          `json:"addRoot,omitempty"`

	Progress int      `json:"progress,omitempty"` // how many notifications of progress come
	Logs     []string `json:"logs,omitempty"`     // log messages that come, each by a part of its data; a request without a session asks for those of each level
	Updated  []string `json:"updated,omitempty"`  // resources of which an update comes
	Changed  bool     `json:"changed,omitempty"`  // the client is told that the list of resources has changed
	Again    bool     `json:"again,omitempty"`    // the tool is called again until all of that has come

	// Only is the era of the clients that take the step, "" for both: what the protocol has in one of them alone.
	Only string `json:"only,omitempty"`
	As   string `json:"as,omitempty"` // what the outcome is called, if not by what is done
	// Contains is a part of the outcome. The rest is compared only if the server was asked directly, too.
	Contains string `json:"-"`
	// Environment says that the tool answers with its environment.
	Environment bool `json:"-"`
}

// The eras.
const (
	legacyOnly = "legacy"
	modernOnly = "modern"
)

type root struct {
	URI  string `json:"uri"`
	Name string `json:"name"`
}

// userAnswer is what the user of a client says to a question: accept, decline or cancel, or refuse, which is an error.
type userAnswer struct {
	Action  string         `json:"action"`
	Content map[string]any `json:"content,omitempty"`
}

// name is what the outcome of a step is called.
func (s *walkStep) name() string {
	switch {
	case s.As != "":
		return s.As
	case s.Call != "":
		return "call " + s.Call + " " + asJSON(s.Args)
	case s.Subscribe != "":
		return "subscribe " + s.Subscribe
	case s.Unsubscribe != "":
		return "unsubscribe " + s.Unsubscribe
	case s.Level != "":
		return "level " + s.Level
	case s.AddRoot != nil:
		return "another root"
	}
	return "wait"
}

// taken reports whether clients of an era take the step.
func (s *walkStep) taken(modern bool) bool {
	return s.Only == "" || (s.Only == modernOnly) == modern
}

// walked is what came of one request: a result or an error, and what the client was asked and told meanwhile.
type walked struct {
	Of       string
	Says     any
	Asked    []any    `json:",omitempty"`
	Progress []any    `json:",omitempty"`
	Logs     []any    `json:",omitempty"` // those that the step waits for
	Updated  []string `json:",omitempty"` // those that the step waits for
}

// compare checks that a hosted server says what it says directly, of plain outcomes. What it says directly that a client of the other era was told is not
// compared.
func (w *walk) compare(t *testing.T, hosted, direct []walked, modern bool) {
	t.Helper()
	want := make(map[string]walked)
	for _, o := range direct {
		want[o.Of] = o
	}
	contains, taken := make(map[string]string), make(map[string]bool)
	for _, s := range w.Steps {
		if s.taken(modern) {
			contains[w.hide(s.name())], taken[w.hide(s.name())] = s.Contains, true
		}
	}
	for _, s := range w.Steps {
		if of := w.hide(s.name()); !taken[of] {
			delete(want, of)
		}
	}
	for _, o := range hosted {
		if part := contains[o.Of]; !strings.Contains(asJSON(o), part) {
			t.Errorf("%s: %s, which has no %q", o.Of, asJSON(o), part)
		}
		direct, asked := want[o.Of]
		delete(want, o.Of)
		if !asked && contains[o.Of] == "" {
			t.Errorf("%s: %s, which nobody asked directly", o.Of, asJSON(o))
		}
		if !asked {
			continue
		}
		if diff := cmp.Diff(withoutTaskSupport(o, modern), withoutTaskSupport(direct, modern)); diff != "" {
			t.Errorf("%s (-hosted +direct):\n%s", o.Of, diff)
		}
	}
	for of, o := range want {
		t.Errorf("%s: it says directly %s, and nobody asked the hosted server", of, asJSON(o))
	}
	w.covers(t, hosted)
}

// withoutTaskSupport returns an outcome in which tools do not say whether they may become tasks, if the revision has no word for that.
func withoutTaskSupport(o walked, modern bool) walked {
	if o.Of != "tools" || !modern {
		return o
	}
	var tools []any
	for _, tool := range o.Says.(map[string]any)["tools"].([]any) {
		tool := maps.Clone(tool.(map[string]any))
		delete(tool, "execution")
		tools = append(tools, tool)
	}
	o.Says = tools
	return o
}

// covers checks that each tool that the server lists is called.
func (w *walk) covers(t *testing.T, all []walked) {
	t.Helper()
	var called, listed []string
	for _, s := range w.Steps {
		if s.Call != "" && !slices.Contains(called, s.Call) {
			called = append(called, s.Call)
		}
	}
	for _, o := range all {
		if o.Of == "tools" {
			for _, tool := range o.Says.(map[string]any)["tools"].([]any) {
				listed = append(listed, tool.(map[string]any)["name"].(string))
			}
		}
	}
	slices.Sort(called)
	slices.Sort(listed)
	if diff := cmp.Diff(called, listed); diff != "" {
		t.Errorf("the tools that are called are not those that are listed (-called +listed):\n%s", diff)
	}
}

// What differs from one process, session or moment to the other.
var (
	anyID   = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	anyTime = regexp.MustCompile(`\w{3} \w{3} \d\d \d{4} \d\d:\d\d:\d\d GMT[+-]\d{4} \([^)]*\)|\d{1,2}:\d\d:\d\d([ \x{202f}][AP]M)?`)
	anyLog  = regexp.MustCompile(`^\w+[- ]level[- ]message`) // one of several, at random, each of its own level
)

// plain returns outcomes as they can be compared with those of another walk.
func (w *walk) plain(all []walked) []walked {
	for i := range all {
		all[i] = w.plainOne(all[i])
	}
	return all
}

// plainOne returns an outcome without what differs from one walk to the other, and without what the protocol itself says there: a
// result of 2026-07-28 has a type, an age and its server, a question of 2025-11-25 an id, and the result of a task the id of the task.
func (w *walk) plainOne(o walked) walked {
	data, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	var all any
	if err := json.Unmarshal(data, &all); err != nil {
		panic(err)
	}
	for _, s := range w.Steps {
		if s.Environment && s.name() == o.Of {
			all = environmentOf(all.(map[string]any))
		}
	}
	data, err = json.Marshal(w.plainly(all))
	if err != nil {
		panic(err)
	}
	o = walked{}
	if err := json.Unmarshal(data, &o); err != nil {
		panic(err)
	}
	slices.SortFunc(o.Asked, func(a, b any) int { return strings.Compare(asJSON(a), asJSON(b)) }) // several at once come in any order
	return o
}

func (w *walk) plainly(v any) any {
	switch v := v.(type) {
	case string:
		return w.hide(v)
	case []any:
		for i := range v {
			v[i] = w.plainly(v[i])
		}
	case map[string]any:
		for _, ofTheProtocol := range []string{"resultType", "ttlMs", "cacheScope", "elicitationId", "io.modelcontextprotocol/serverInfo", "io.modelcontextprotocol/related-task", "progressToken"} {
			delete(v, ofTheProtocol)
		}
		if blob, ok := v["blob"].(string); ok {
			if text, err := base64.StdEncoding.DecodeString(blob); err == nil && anyTime.Match(text) {
				v["blob"] = "base64 of " + string(text)
			}
		}
		if data, ok := v["data"].(string); ok && v["level"] != nil && anyLog.MatchString(data) {
			v["level"], v["data"] = "any", anyLog.ReplaceAllString(data, "any message")
		}
		for name, one := range v {
			v[name] = w.plainly(one)
		}
		if meta, ok := v["_meta"].(map[string]any); ok && len(meta) == 0 {
			delete(v, "_meta")
		}
	}
	return v
}

// hide returns a text without what differs from one walk to the other.
func (w *walk) hide(text string) string {
	for hidden, shown := range w.hidden {
		text = strings.ReplaceAll(text, hidden, shown)
	}
	return anyTime.ReplaceAllString(anyID.ReplaceAllString(text, "<id>"), "<time>")
}

// environmentOf puts the environment that a tool answers with in place of its text: the order means nothing, and the keeper adds a mark.
func environmentOf(o map[string]any) map[string]any {
	says, _ := o["Says"].(map[string]any)
	content, _ := says["content"].([]any)
	if len(content) != 1 {
		return o
	}
	text, _ := content[0].(map[string]any)["text"].(string)
	var all map[string]any
	if json.Unmarshal([]byte(text), &all) != nil {
		return o
	}
	delete(all, "TROUPE_KEPT")
	says["content"] = all
	return o
}
