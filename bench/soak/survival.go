package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/bench/client"
	"github.com/troupe-run/troupe/bench/program"
)

// survivalReport is what became of that which was under way when serve ended.
type survivalReport struct {
	report
	Ends      map[string]int   `json:"ends_of_serve"` // by kind
	Each      int              `json:"questions_that_wait_in_each_era"`
	Processes int              `json:"processes_kept_at_most"`
	Counts    map[string]int64 `json:"counts"`
	Ready     latency          `json:"end_to_ready_ms"`
	All       latency          `json:"ready_to_all_answered_ms"`
}

// What the report counts.
const (
	ofResumes  = "answers_by_last_event_id"
	ofSessions = "questions_of_sessions_answered"
	ofRetries  = "retries_completed"
	ofAgain    = "answers_sent_again" // since the end of serve left open whether they had come
	ofOnceMore = "asked_once_more"    // as the answer was lost with serve
	ofWrites   = "writes"
	ofDoubts   = "writes_without_an_answer"
	ofRun      = "of_which_were_run"
)

// The ends of serve.
var endings = []string{"kill", "redeploy"}

const (
	writers    = 2 // sessions that write all the time
	operations = 4 // that are long, and report progress
)

// survivalRun is one run.
type survivalRun struct {
	*hosting
	rng    *rand.Rand
	report *survivalReport
	tally  tally

	guests, long []*boarder // whose questions wait, and whose operations last
	alone        *client.Stateless
	ready, all   []time.Duration

	mu     sync.Mutex // guards broken
	broken []string   // by writers
}

// runSurvival ends serve --rounds times, at most for --time, in the middle of what --clients of each era and some others do, starts it
// anew, and looks whether all of that goes on.
func runSurvival(ctx context.Context, o options) (*survivalReport, error) {
	unbounded := []string{"sessions-per-principal=0", "pending-per-principal=0", "calls-per-principal=0", "streams-per-principal=0", "connections-per-address=0"}
	flags := []string{"--keep", "30s"}
	for _, setting := range unbounded {
		flags = append(flags, "--set", setting)
	}
	h, err := newHosting(ctx, o, map[string]string{"memory": "plain"}, map[string]string{"memory": ", max: 0, max-per-principal: 0"}, flags...)
	if err != nil {
		return nil, err
	}
	w := &survivalRun{hosting: h, rng: rand.New(rand.NewPCG(o.seed, 0)), report: &survivalReport{report: newReport("survival", o), Ends: map[string]int{}, Each: o.clients}}
	r := w.report
	defer func() { _ = h.p.Kill() }()
	if err := h.p.StartReady(ctx); err != nil {
		return nil, err
	}
	began := time.Now()
	stop := func() {}
	if err := w.begin(); err != nil {
		r.addBroken("the beginning: %v: %s", err, h.p.Log.LastLines(20))
	} else if stop, err = w.write(); err != nil {
		r.addBroken("the first write: %v: %s", err, h.p.Log.LastLines(20))
	}
	for i := 0; i < o.rounds && len(r.Broken) == 0 && (o.time == 0 || time.Since(began) < o.time); i++ {
		ending := endings[w.rng.IntN(len(endings))]
		r.Ends[ending]++
		if err := w.round(i, ending); err != nil {
			r.addBroken("round %d, %s: %v: %s", i, ending, err, h.p.Log.LastLines(20))
		}
		if i%10 == 9 {
			fmt.Fprintf(o.log, "%4.0f s: %d rounds\n", time.Since(began).Seconds(), i+1)
		}
	}
	stop()
	r.Broken = append(r.Broken, w.broken...)
	r.Seconds, r.Ready, r.All, r.Counts = time.Since(began).Seconds(), latencyOf(w.ready), latencyOf(w.all), w.tally.counts()
	for _, line := range h.p.Log.Alarmed() {
		r.addBroken("the log says: %s", line)
	}
	w.leave()
	return r, context.Cause(ctx)
}

// begin begins the sessions.
func (w *survivalRun) begin() error {
	w.alone = client.NewStateless(w.p.URL(0), w.rt, elicits)
	w.guests, w.long = make([]*boarder, w.o.clients), make([]*boarder, operations)
	return each(w.o.clients+operations, 4, func(i int) error {
		b, err := w.boardAs("memory", elicits)
		if i < w.o.clients {
			w.guests[i] = b
		} else {
			w.long[i-w.o.clients] = b
		}
		return err
	})
}

// elicits is what a client declares whom a server may ask.
const elicits = `{"elicitation":{}}`

// leave ends serve and checks that its keeper ends what nobody comes for.
func (w *survivalRun) leave() {
	if err := w.p.End(); err != nil {
		w.report.addBroken("the end of serve: %v", err)
	}
	w.awaitNone(&w.report.report, "nobody has come back for long enough")
	w.report.Over = nil // that took as long as everything is kept
}

// round has everything wait, ends serve, starts it anew, and checks what came of it.
func (w *survivalRun) round(i int, ending string) error {
	dir, err := os.MkdirTemp(filepath.Dir(w.o.data), "held")
	if err != nil {
		return err
	}
	asks, parked, held := make([]*sessionAsk, len(w.guests)), make([]*statelessAsk, len(w.guests)), make([]*operation, len(w.long))
	n := len(w.guests)
	err = each(2*n+len(held), 8, func(j int) (err error) {
		text := fmt.Sprintf("%d of round %d", j, i)
		switch {
		case j < n:
			asks[j], err = w.askInSession(w.guests[j], text)
		case j < 2*n:
			parked[j-n], err = w.askAlone(j, text)
		default:
			held[j-2*n], err = w.beginOperation(w.long[j-2*n], filepath.Join(dir, fmt.Sprint(j-2*n)))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("before: %w", err)
	}
	before := pidsOf(program.Named(w.named))
	w.report.Processes = max(w.report.Processes, len(before))

	// A third of the answers come at the very moment.
	var early sync.WaitGroup
	for j := range n {
		if w.rng.IntN(3) == 0 {
			early.Go(func() { asks[j].sent = asks[j].send() == nil })
		}
		if w.rng.IntN(3) == 0 {
			early.Go(func() { parked[j].done, _ = parked[j].retry() })
		}
	}
	client.Sleep(w.ctx, time.Duration(w.rng.IntN(20))*time.Millisecond)
	ended := time.Now()
	if ending == "kill" {
		err = w.p.Kill()
	} else {
		err = w.p.End()
	}
	if err != nil {
		return err
	}
	early.Wait()
	for j, k := range held {
		if j%2 == 0 { // its end comes while nobody is there
			if err := k.finish(); err != nil {
				return err
			}
		}
	}
	if err := w.p.StartReady(w.ctx); err != nil {
		return err
	}
	w.rt.CloseIdleConnections()
	ready := time.Now()
	w.ready = append(w.ready, ready.Sub(ended))
	err = each(2*n+len(held), 8, func(j int) error {
		switch {
		case j < n:
			return asks[j].complete()
		case j < 2*n:
			return parked[j-n].complete()
		}
		return held[j-2*n].complete()
	})
	if err != nil {
		return err
	}
	w.all = append(w.all, time.Since(ready))
	after := pidsOf(program.Named(w.named))
	for _, pid := range before {
		if !slices.Contains(after, pid) {
			return fmt.Errorf("process %d is gone", pid)
		}
	}
	for _, b := range slices.Concat(w.guests, w.long) {
		had := *b
		if err := b.count(); err != nil {
			return err
		}
		if b.pid != had.pid || b.n != had.n+1 {
			return fmt.Errorf("a session counts %d in process %d, and had counted %d in %d", b.n, b.pid, had.n, had.pid)
		}
	}
	return errors.Join(os.RemoveAll(dir), w.writersFailed())
}

func pidsOf(all []program.Seen) (pids []int) {
	for _, s := range all {
		pids = append(pids, s.PID)
	}
	return pids
}

// A keptCall is a call of a session whose answer comes over as many connections as it takes.
type keptCall struct {
	w    *survivalRun
	b    *boarder
	id   string
	end  context.CancelFunc
	ctx  context.Context
	a    *client.Answer
	last string // the id of the last event, "" for none
}

// beginCall begins a call, which its end must follow.
func (w *survivalRun) beginCall(b *boarder, tool, arguments string) (*keptCall, error) {
	b.ids++
	k := &keptCall{w: w, b: b, id: fmt.Sprint(b.ids)}
	k.ctx, k.end = context.WithTimeout(w.ctx, stuckAfter)
	var err error
	k.a, err = b.c.SendRequest(k.ctx, k.id, "tools/call", fmt.Sprintf(`{"name":"%s__%s","arguments":%s,"_meta":{"progressToken":"p%s"}}`, b.of, tool, arguments, k.id))
	return k, err
}

// next returns the next message.
func (k *keptCall) next() (m message, err error) {
	if k.a.Events == nil {
		if m = parse(string(k.a.Body)); !m.answers(k.id) {
			err = fmt.Errorf("%d %s", k.a.Status, k.a.Body)
		}
		return m, err
	}
	for {
		e, err := k.a.Events.Next()
		if err != nil {
			return m, err
		}
		if k.last = e.ID; e.Data != "" {
			return parse(e.Data), nil
		}
	}
}

// until reads up to a message of a method.
func (k *keptCall) until(method string) (m message, err error) {
	for m.Method != method {
		if m, err = k.next(); err != nil {
			return m, fmt.Errorf("%s in place of %s: %w", k.b.of, method, err)
		}
		if m.Method == "" {
			return m, fmt.Errorf("an answer in place of %s: %+v", method, m)
		}
	}
	return m, nil
}

// resume goes on behind the last event, as soon as there is somebody who can.
func (k *keptCall) resume() error {
	k.a.Close()
	for {
		a, err := k.b.c.ResumeStream(k.ctx, k.last)
		switch {
		case err == nil && a.Events != nil:
			k.a = a
			return nil
		case err == nil && a.Status != http.StatusServiceUnavailable:
			return fmt.Errorf("a resume after %s is answered with %d %s", k.last, a.Status, a.Body)
		case !client.Sleep(k.ctx, 5*time.Millisecond):
			return fmt.Errorf("a resume after %s: %w", k.last, errors.Join(err, k.ctx.Err()))
		}
	}
}

// answer reads up to the answer, over as many connections as it takes. Without an event there is nothing to come back by, and the error
// is that of the connection.
func (k *keptCall) answer() (string, error) {
	for {
		m, err := k.next()
		switch {
		case err != nil && k.last == "":
			return "", err
		case err != nil:
			if err := k.resume(); err != nil {
				return "", err
			}
			k.w.tally.add(ofResumes)
		case m.Error != nil && m.answers(k.id):
			return "", &refusedError{m.Error.Code}
		case m.answers(k.id):
			return m.text(), k.judge()
		}
	}
}

// judge checks that all connections had events of one sequence, with one answer, each question once and no progress twice.
func (k *keptCall) judge() error {
	if k.last == "" {
		return nil
	}
	p, err := client.ParseID(k.last)
	if err != nil {
		return err
	}
	defer k.b.c.ForgetStream(p.Stream)
	events, err := k.b.c.StreamRecord(p.Stream).MergeEvents()
	seen := map[string]int{}
	for _, e := range events {
		if m := parse(e.Data); e.Data != "" {
			seen[fmt.Sprintf("%s %s %d", m.Method, m.ID, m.Params.Progress)]++
		}
	}
	for what, times := range seen {
		if times > 1 {
			err = errors.Join(err, fmt.Errorf("call %s: %s came %d times", k.id, what, times))
		}
	}
	return err
}

// A sessionAsk is a call of a session with a question that waits for its answer.
type sessionAsk struct {
	*keptCall
	question string // its id
	text     string // of the answer
	sent     bool
}

func (w *survivalRun) askInSession(b *boarder, text string) (*sessionAsk, error) {
	k, err := w.beginCall(b, "ask", `{"text":"which"}`)
	if err != nil {
		return nil, err
	}
	m, err := k.until("elicitation/create")
	return &sessionAsk{keptCall: k, question: string(m.ID), text: text}, err
}

// send answers the question.
func (k *sessionAsk) send() error {
	a, err := k.b.c.SendAnswer(k.ctx, k.question, fmt.Sprintf(`{"action":"accept","content":{"answer":%q}}`, k.text))
	if err != nil {
		return err
	}
	a.Close()
	if a.Status != http.StatusAccepted {
		return fmt.Errorf("an answer is answered with %d %s", a.Status, a.Body)
	}
	return nil
}

// complete comes back, before its answer or after it, and reads the result.
func (k *sessionAsk) complete() error {
	defer k.end()
	if !k.sent {
		if err := k.send(); err != nil {
			return err
		}
		k.w.tally.add(ofAgain)
	}
	if err := k.resume(); err != nil {
		return err
	}
	k.w.tally.add(ofResumes)
	text, err := k.answer()
	if err != nil || text != k.text {
		return fmt.Errorf("an answer was %q, and is %q: %w", k.text, text, err)
	}
	k.w.tally.add(ofSessions)
	return nil
}

// A statelessAsk is a call without a session that waits for its input.
type statelessAsk struct {
	w     *survivalRun
	id    string
	text  string // of the answer
	state string
	keys  []string
	done  bool
}

// required is a response that may need input.
type required struct {
	Result struct {
		InputRequests map[string]json.RawMessage
		RequestState  string
		Content       []struct{ Text string }
	}
	Error json.RawMessage
}

func (w *survivalRun) askAlone(i int, text string) (*statelessAsk, error) {
	k := &statelessAsk{w: w, id: fmt.Sprint(i + 1), text: text}
	done, err := k.retry()
	if err == nil && (done || k.state == "") {
		err = errors.New("a call without a session did not ask")
	}
	return k, err
}

// retry sends the call with what it has, and reports whether it is complete. It keeps what the call needs further.
func (k *statelessAsk) retry() (done bool, err error) {
	params := `"name":"memory__ask","arguments":{"text":"which"}`
	if k.state != "" {
		var given []string
		for _, key := range k.keys {
			given = append(given, formAnswer(key, "answer", k.text))
		}
		params += fmt.Sprintf(`,"requestState":%q,"inputResponses":{%s}`, k.state, strings.Join(given, ","))
	}
	ctx, end := context.WithTimeout(k.w.ctx, stuckAfter)
	defer end()
	a, err := k.w.alone.SendRequest(ctx, k.id, "tools/call", params)
	if err != nil {
		return false, err
	}
	body, err := lastOf(a)
	if err != nil {
		return false, err
	}
	var r required
	if err := json.Unmarshal([]byte(body), &r); err != nil || r.Error != nil {
		return false, fmt.Errorf("a call without a session is answered with %d %s", a.Status, body)
	}
	if r.Result.RequestState != "" {
		k.state, k.keys = r.Result.RequestState, nil
		for key := range r.Result.InputRequests {
			k.keys = append(k.keys, key)
		}
		return false, nil
	}
	if len(r.Result.Content) != 1 || r.Result.Content[0].Text != k.text {
		return false, fmt.Errorf("an answer was %q, and the result is %s", k.text, body)
	}
	return true, nil
}

// complete sends the call again until it is complete. One whose answer was lost with serve may ask once more.
func (k *statelessAsk) complete() error {
	for range 3 {
		if k.done {
			k.w.tally.add(ofRetries)
			return nil
		}
		var err error
		if k.done, err = k.retry(); err != nil {
			return err
		}
		if !k.done {
			k.w.tally.add(ofOnceMore)
		}
	}
	return errors.New("a call without a session asks and asks")
}

// An operation is a call that reports progress and lasts until there is a file.
type operation struct {
	*keptCall
	file string
}

func (w *survivalRun) beginOperation(b *boarder, file string) (*operation, error) {
	k, err := w.beginCall(b, "hold", fmt.Sprintf(`{"file":%q}`, file))
	if err != nil {
		return nil, err
	}
	_, err = k.until("notifications/progress")
	return &operation{k, file}, err
}

// finish lets the operation come to its end.
func (k *operation) finish() error { return os.WriteFile(k.file, nil, 0o600) }

// complete comes back and reads the result.
func (k *operation) complete() error {
	defer k.end()
	if err := k.resume(); err != nil {
		return err
	}
	k.w.tally.add(ofResumes)
	if err := k.finish(); err != nil {
		return err
	}
	text, err := k.answer()
	if err != nil || text != "held" {
		return fmt.Errorf("a long operation ends with %q: %w", text, err)
	}
	runs, err := os.ReadFile(k.file + ".runs")
	if err != nil || string(runs) != fmt.Sprintln(k.b.pid) {
		return fmt.Errorf("a long operation ran in %q, want once in %d: %w", runs, k.b.pid, err)
	}
	return nil
}

// write has sessions write all the time, until stop is called.
func (w *survivalRun) write() (stop func(), err error) {
	over := make(chan struct{})
	var all sync.WaitGroup
	for range writers {
		b, err := w.board("memory")
		if err != nil {
			close(over)
			return all.Wait, err
		}
		all.Go(func() {
			if err := w.writeUntil(b, over); err != nil {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.broken = append(w.broken, "a writer: "+err.Error())
			}
		})
	}
	return func() { close(over); all.Wait() }, nil
}

// writersFailed is what writers have met.
func (w *survivalRun) writersFailed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.broken) > 0 {
		return errors.New("a write went wrong")
	}
	return nil
}

// writeUntil writes until over is closed. Each write counts once: one whose answer was lost before it had a stream may have been run or
// not, which the next one shows.
func (w *survivalRun) writeUntil(b *boarder, over chan struct{}) error {
	doubts := 0
	for good := time.Now(); !isClosed(over) && client.Sleep(w.ctx, time.Millisecond); {
		had := *b
		err := w.writeOnce(b)
		if refused, ok := errors.AsType[*refusedError](err); ok && refused.code == codeCallLost {
			return fmt.Errorf("a write is given up, though its process goes on: %w", err)
		}
		switch {
		case err != nil && time.Since(good) > stuckAfter:
			return fmt.Errorf("no write is answered any more: %w", err)
		case client.Failed(err) == client.Refused:
			client.Sleep(w.ctx, 2*time.Millisecond)
			continue
		case err != nil:
			doubts++
			continue
		case b.pid != had.pid || b.n <= had.n || b.n > had.n+1+doubts:
			return fmt.Errorf("it counts %d in process %d, and had counted %d in %d before %d writes without an answer", b.n, b.pid, had.n, had.pid, doubts)
		}
		w.tally.add(ofWrites)
		w.tally.addMany(ofDoubts, int64(doubts))
		w.tally.addMany(ofRun, int64(b.n-had.n-1))
		good, doubts = time.Now(), 0
	}
	return nil
}

// writeOnce has the process of a session count, and comes back for the answer if there is a stream.
func (w *survivalRun) writeOnce(b *boarder) error {
	k, err := w.beginCall(b, "counter", "{}")
	defer k.end()
	if err != nil {
		return err
	}
	text, err := k.answer()
	var now struct{ PID, N int }
	if err == nil {
		err = json.Unmarshal([]byte(text), &now)
	}
	if err == nil {
		b.pid, b.n = now.PID, now.N
	}
	return err
}
