package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
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
	frail bool   // a node of the fleet was ending or coming back then: who gave it may be gone though it was not before that start
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
	k.at, k.state, k.boot, k.frail = at, a.Result.RequestState, boot, k.v.w.mayForget(boot)
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
		id, asked, frail := k.v.newID(), k.boot, k.frail
		a, boot := k.sendUntilAnswered(id, params)
		if a == nil {
			return
		}
		var err error
		if over, err = k.judge(id, a, boot); err != nil {
			k.v.accuse(nil, "%s, asked by start %d, sent again to start %d as %s got %d %s: %v", k, k.boot, boot, params, a.Status, a.Body, err)
			return
		}
		if w.fleet == nil || !frail && !w.mayBreak(asked) { // each node runs it once more whose client says so, when the one that asked is gone
			k.repeatAnswered(id, params, a, boot)
		}
	}
	w.tally.add("stateless_answered")
}

// sendUntilAnswered sends the call again until it is answered, now and then twice at once. It
// returns nil when the run has ended.
func (k *parked) sendUntilAnswered(id, params string) (*client.Answer, int64) {
	w := k.v.w
	for twice := k.rng.IntN(4) == 0; w.ctx.Err() == nil; twice = false {
		var other *client.Answer
		var otherBoot int64
		var sending sync.WaitGroup
		if twice {
			sending.Go(func() { other, otherBoot = k.v.tryRequest(id, "tools/call", params) })
		}
		a, boot := k.v.tryRequest(id, "tools/call", params)
		sending.Wait()
		if a != nil && other != nil && boot != 0 && boot == otherBoot {
			k.compareAnswers("twice at once", a, other)
		}
		if a != nil {
			return a, boot
		}
		w.wait(time.Duration(1+k.rng.IntN(20)) * time.Millisecond)
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

// repeatAnswered sends once more what was answered: the same start answers the same, and refuses
// other answers to what has been answered.
func (k *parked) repeatAnswered(id, params string, a *client.Answer, boot int64) {
	w := k.v.w
	if k.rng.IntN(3) == 0 {
		return
	}
	b, at := k.v.tryRequest(id, "tools/call", params)
	if b == nil || boot == 0 || at != boot || w.mayForget(boot) {
		return
	}
	k.compareAnswers("again", a, b)
	if strings.Contains(string(a.Body), `"error"`) {
		return
	}
	b, at = k.v.tryRequest(id, "tools/call", strings.Replace(params, `"inputResponses":{`, `"inputResponses":{"other":{},`, 1))
	if b == nil || at != boot || w.mayForget(boot) {
		return
	}
	if string(b.Body) != `{"jsonrpc":"2.0","id":`+id+`,"error":{"code":-32602,"message":"the requestState is not valid for this request"}}` {
		k.v.accuse(nil, "%s sent again with other answers got %d %s", k, b.Status, b.Body)
	}
	w.tally.add("stateless_other_answers_refused")
}

// compareAnswers checks that what was sent twice to one start had one outcome.
func (k *parked) compareAnswers(what string, a, b *client.Answer) {
	if (a.Status != b.Status || string(a.Body) != string(b.Body)) && !k.v.w.mayForget(k.boot) {
		k.v.accuse(nil, "%s, sent %s, got %d %s, and then %d %s", k, what, a.Status, a.Body, b.Status, b.Body)
	}
	k.v.w.tally.add("stateless_same_answers_again")
}
