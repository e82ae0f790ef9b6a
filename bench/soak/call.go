package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/troupe-run/troupe/bench/client"
)

const (
	codeCallLost    = -32010 // of a call whose node was lost and that may not run again
	codeUnavailable = -32603 // of a call that did not get what it needs of the store
)

// message is what of a JSON-RPC message is looked at.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Token    json.RawMessage `json:"progressToken"`
		Progress int             `json:"progress"`
		Total    int             `json:"total"`
		Logger   string          `json:"logger"`
		Data     string          `json:"data"`
		URI      string          `json:"uri"`
	} `json:"params"`
	Result *struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
		IsError bool `json:"isError"`
	} `json:"result"`
	Error *struct {
		Code int `json:"code"`
	} `json:"error"`
}

// parse reads a message; what is none answers nothing and is no notification.
func parse(data string) message {
	var m message
	if json.Unmarshal([]byte(data), &m) != nil {
		return message{Method: "unreadable"}
	}
	return m
}

// answers reports that m is the answer to the request of that raw id.
func (m *message) answers(id string) bool {
	return m.Method == "" && string(m.ID) == id && (m.Result != nil || m.Error != nil)
}

// text is the only content of a result, "" for any other.
func (m *message) text() string {
	if m.Result == nil || m.Result.IsError || len(m.Result.Content) != 1 {
		return ""
	}
	return m.Result.Content[0].Text
}

// call is one tools/call and what must come of it.
type call struct {
	v      *visitor
	id     string
	tool   string
	args   string
	safe   bool   // may run again
	fails  bool   // its result is an error of the tool
	text   string // of a right answer
	to     int    // how far it counts
	token  string // of its progress, raw; "" for none
	silent bool   // it sends no log messages
	boot   int64  // the start that took it
	final  *message
}

func (v *visitor) newCall(tool, args, text string) *call {
	return &call{v: v, id: v.newID(), tool: tool, args: args, text: text, safe: true}
}

func (v *visitor) newEcho(rng *rand.Rand, size int) *call {
	text := longText(rng, size)
	return v.newCall("echo", `{"text":"`+text+`"}`, text)
}

func (v *visitor) newCount(to, delay int, token string) *call {
	k := v.newCall("count", fmt.Sprintf(`{"to":%d,"delay_ms":%d}`, to, delay), fmt.Sprintf("counted to %d", to))
	k.to, k.token = to, token
	return k
}

func (v *visitor) newSleep(rng *rand.Rand) *call {
	ms := 240 + rng.IntN(20) // about the grace period
	if rng.IntN(2) == 0 {
		ms = 300 + rng.IntN(900)
	}
	return v.newCall("sleep", fmt.Sprintf(`{"ms":%d}`, ms), fmt.Sprintf("slept %d ms", ms))
}

// forHours are the arguments of a sleep that ends only because its client does not want it any
// more.
const forHours = `{"ms":3600000}`

// newEndless makes a call that goes on for hours: silent, or telling of its progress.
func (v *visitor) newEndless(rng *rand.Rand) *call {
	if rng.IntN(2) == 0 {
		return v.newCall("sleep", forHours, "")
	}
	return v.newCount(1000000, 20, `"endless"`)
}

// newSome makes calls that may be sent together. Counts differ in how far they go, which tells
// their log messages apart.
func (v *visitor) newSome(rng *rand.Rand, n int) (all []*call) {
	for i := range n {
		switch rng.IntN(4) {
		case 0:
			all = append(all, v.newSleep(rng))
		case 1:
			all = append(all, v.newEcho(rng, 20))
		default:
			all = append(all, v.newCount(5+10*i+rng.IntN(10), 5+rng.IntN(25), fmt.Sprintf(`"b%d"`, i)))
		}
	}
	if rng.IntN(3) == 0 { // makes no noise where nobody subscribes, and may not run again
		k := v.newCall("test_error_handling", `{}`, "")
		k.safe, k.fails = false, true
		all = append(all, k)
	}
	return all
}

func (k *call) String() string {
	return fmt.Sprintf("%s %s %.200s", k.tool, k.id, k.args)
}

// params are those of a client with a session.
func (k *call) params() string {
	meta := ""
	if k.token != "" {
		meta = `,"_meta":{"progressToken":` + k.token + `}`
	}
	return `{"name":"` + k.tool + `","arguments":` + k.args + meta + `}`
}

// request is the message of a client with a session.
func (k *call) request() string {
	return client.Request(k.id, "tools/call", k.params())
}

func requestsOf(all []*call) (requests []string) {
	for _, k := range all {
		requests = append(requests, k.request())
	}
	return requests
}

// judgeCalls gives each event to the call it belongs to, and judges each call by its own. endless
// calls must not have been answered.
func judgeCalls(all []*call, events []client.Event, endless bool) error {
	of := make(map[*call][]client.Event)
	for _, e := range events {
		k := ownerOf(all, parse(e.Data))
		if k == nil {
			return fmt.Errorf("event %s belongs to no call: %s", e.ID, e.Data)
		}
		of[k] = append(of[k], e)
	}
	for _, k := range all {
		if err := k.judgeEvents(of[k], endless); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
	}
	return nil
}

// ownerOf returns the call to which a message belongs: where there is but one, it judges that
// itself.
func ownerOf(all []*call, m message) *call {
	for _, k := range all {
		if len(all) == 1 || m.answers(k.id) || m.Method == "notifications/progress" && string(m.Params.Token) == k.token ||
			m.Method == "notifications/message" && strings.HasSuffix(m.Params.Data, fmt.Sprintf(" of %d", k.to)) {
			return k
		}
	}
	return nil
}

// judgeEvents says what is wrong with the events of a call: each belongs to it and comes once and
// in order, and the answer comes last.
func (k *call) judgeEvents(events []client.Event, endless bool) error {
	var progress, logs, questions, finals int
	for i, e := range events {
		m := parse(e.Data)
		switch {
		case e.Data == "" && i == 0: // it primes the stream
		case m.answers(k.id):
			if finals++; endless || i != len(events)-1 {
				return fmt.Errorf("the answer %s is not the last and only one, or not due", e.ID)
			}
			if err := k.judgeAnswer(m); err != nil {
				return err
			}
		case k.tool == "count" && m.Method == "notifications/progress":
			if progress++; m.Params.Progress != progress || m.Params.Total != k.to || string(m.Params.Token) != k.token {
				return fmt.Errorf("event %s is %s: want progress %d of %d under %s", e.ID, e.Data, progress, k.to, k.token)
			}
		case k.tool == "count" && m.Method == "notifications/message":
			if logs++; m.Params.Data != fmt.Sprintf("%d of %d", logs, k.to) || m.Params.Logger != "count" {
				return fmt.Errorf("event %s is %s: want log message %d of %d", e.ID, e.Data, logs, k.to)
			}
		case m.Method == "elicitation/create" && k.tool == "ask":
			if questions++; questions > 1 {
				return fmt.Errorf("event %s asks again", e.ID)
			}
		default:
			return fmt.Errorf("event %s does not belong here: %s", e.ID, e.Data)
		}
	}
	wantLogs, wantProgress := k.to, k.to
	if k.silent || k.tool != "count" {
		wantLogs = 0
	}
	if k.token == "" || k.tool != "count" {
		wantProgress = 0
	}
	if !endless && (finals != 1 || logs != wantLogs || progress != wantProgress) {
		return fmt.Errorf("%d answers, %d log messages of %d, %d notifications of progress of %d", finals, logs, wantLogs, progress, wantProgress)
	}
	return nil
}

func (k *call) judgeAnswer(m message) error {
	w := k.v.w
	switch {
	case m.Error != nil && m.Error.Code == codeCallLost && !k.safe:
		if w.dying.Load() < k.boot {
			return fmt.Errorf("the call was given up and nobody was killed")
		}
	case k.tool == "tick" && w.mayForget(k.boot) && (m.Error != nil && m.Error.Code == codeUnavailable || m.Result != nil && m.Result.IsError):
		// The store was away when it sent a message, or nobody knows whether that was stored.
	case m.Error != nil:
		return fmt.Errorf("answered with error %d", m.Error.Code)
	case k.fails && m.Result.IsError:
	case m.text() != k.text:
		return fmt.Errorf("the answer is %.200q and not %.200q", m.text(), k.text)
	}
	return nil
}
