package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

// parked is a call that waits for its stateless client's input once or several times.
type parked struct {
	v     *stateless
	call  string // the members of its params, without state and answers
	safe  bool
	when  answerTime
	round int64 // from which on it must be answered
	rng   *rand.Rand
	text  string // what it says in the end
	steps []step

	at    int    // the step that it waits for
	state string // "" before it was asked
	boot  int64  // the start that gave the state
}

// step is one time that a call asks: for what, and what it is given.
type step struct{ asks, given string }

func (k *parked) String() string { return k.call }

func formAnswer(key, field, value string) string {
	return fmt.Sprintf(`%q:{"action":"accept","content":{%q:%q}}`, key, field, value)
}

// newParked draws a call and its answers, which are like no other call's.
func (v *stateless) newParked(rng *rand.Rand) *parked {
	k := &parked{v: v, safe: true, rng: rand.New(rand.NewPCG(rng.Uint64(), 1))}
	k.when, k.round = v.drawTime(rng)
	word := func() string { return fmt.Sprintf("ä%d of %s", rng.Int64(), v) }
	tool := []string{"ask", "ask", "ask_once", "ask_once", "test_input_required_result_multi_round"}[rng.IntN(5)]
	k.call = fmt.Sprintf(`"name":%q,"arguments":{}`, tool)
	if tool != "test_input_required_result_multi_round" {
		if k.safe = tool == "ask"; !k.safe && v.w.o.restarts() && k.when != never {
			k.when = atOnce
		}
		k.call = fmt.Sprintf(`"name":%q,"arguments":{"question":"q%d"}`, tool, rng.IntN(1000))
		k.text = word()
		k.steps = []step{{"elicit", formAnswer("elicit", "answer", k.text)}}
		return k
	}
	name, color := word(), word()
	k.text = name + " likes " + color
	k.steps = []step{{"step1", formAnswer("step1", "name", name)}, {"step2", formAnswer("step2", "color", color)}}
	return k
}

// takeState takes the state of a response that asks for what the step does.
func (k *parked) takeState(at int, body []byte, boot int64) error {
	var a struct {
		Result struct {
			ResultType    string
			InputRequests map[string]json.RawMessage
			RequestState  string
		}
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return err
	}
	if a.Result.ResultType != "input_required" || len(a.Result.InputRequests) != 1 || a.Result.InputRequests[k.steps[at].asks] == nil || a.Result.RequestState == "" {
		return fmt.Errorf("it should ask for %s", k.steps[at].asks)
	}
	k.at, k.state, k.boot = at, a.Result.RequestState, boot
	return nil
}

// run makes the call, and sends it again with answers until it is over.
func (k *parked) run() {
	w := k.v.w
	for k.state == "" {
		a, boot := k.v.tryRequest(k.v.newID(), "tools/call", k.call)
		if w.ctx.Err() != nil {
			return
		}
		if a == nil || boot == 0 { // there will be another process
			w.wait(5 * time.Millisecond)
			continue
		}
		if err := k.takeState(0, a.Body, boot); err != nil {
			k.v.accuse(nil, "%s got %d %s: %v", k, a.Status, a.Body, err)
			return
		}
	}
	if k.when == never {
		w.tally.add("stateless_left_with_a_question")
		return
	}
	for over := false; !over; {
		k.v.awaitTime(k.when, k.boot, k.round, time.Duration(k.rng.IntN(1000))*time.Millisecond)
		params := k.call + `,"requestState":"` + k.state + `","inputResponses":{` + k.steps[k.at].given + `}`
		id := k.v.newID()
		a, boot := k.sendUntilAnswered(id, params)
		if a == nil {
			return
		}
		var err error
		if over, err = k.judge(id, a, boot); err != nil {
			k.v.accuse(nil, "%s, asked by start %d, sent again to start %d as %s got %d %s: %v", k, k.boot, boot, params, a.Status, a.Body, err)
			return
		}
	}
	w.tally.add("stateless_answered")
}

// sendUntilAnswered sends the call again until it is answered. It returns nil when the run has ended.
func (k *parked) sendUntilAnswered(id, params string) (*client.Answer, int64) {
	for w := k.v.w; w.ctx.Err() == nil; w.wait(time.Duration(1+k.rng.IntN(20)) * time.Millisecond) {
		if a, boot := k.v.tryRequest(id, "tools/call", params); a != nil {
			return a, boot
		}
	}
	return nil, 0
}

// judge says what is wrong with the answer to the call that was sent again to a start, 0 if it is
// not known to which.
func (k *parked) judge(id string, a *client.Answer, boot int64) (over bool, err error) {
	w := k.v.w
	elsewhere := boot > k.boot || boot == 0 || w.mayForget(k.boot) // perhaps its node was harmed
	m := parse(string(a.Body))
	switch {
	case a.Status != http.StatusOK || !m.answers(id):
		return false, fmt.Errorf("it is no answer")
	case m.Error != nil && m.Error.Code == codeCallLost && !k.safe && elsewhere:
		w.tally.add("stateless_lost_-32010")
		return true, nil
	case m.Error != nil:
		return false, fmt.Errorf("error %d", m.Error.Code)
	case !k.safe && boot > k.boot && w.fleet == nil: // other nodes live on
		return false, fmt.Errorf("it has run again, and must not")
	case k.at+1 < len(k.steps):
		return false, k.takeState(k.at+1, a.Body, max(boot, k.boot))
	case m.text() != k.text:
		return false, fmt.Errorf("it should say %q", k.text)
	}
	if boot > k.boot {
		w.tally.add("stateless_answered_over_a_restart")
	}
	return true, nil
}
