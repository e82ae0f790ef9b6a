package main

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

// throughReport is what becomes of what passes through a proxy when all is well.
type throughReport struct {
	Events latency `json:"event_written_to_event_read_ms"`
	Large  latency `json:"result_of_10_MB_ms"`
	Idle   float64 `json:"silent_streams_lived_s"`
}

const (
	mostLate   = 100 * time.Millisecond // from when a handler writes an event until its client has it
	largeBytes = 10_000_000
)

// measureThrough has streams of all kinds be silent for a while, behind which an update or an answer
// must come over the same connections, and measures events and large results.
func measureThrough(w *world) (*throughReport, error) {
	const uri = "test://template/through/data"
	session := client.New(w.p.URL(0), w.rt)
	if err := session.BeginSession(w.ctx, `{}`); err != nil {
		return nil, err
	}
	if err := answeredWith("")(session.SendRequest(w.ctx, "1", "resources/subscribe", `{"uri":"`+uri+`"}`)); err != nil {
		return nil, err
	}
	without := client.NewStateless(w.p.URL(0), w.rt, `{}`)
	own, err := session.OpenStandalone(w.ctx)
	listens, err2 := without.SendRequest(w.ctx, `"l"`, "subscriptions/listen", `"notifications":{"resourceSubscriptions":["`+uri+`"]}`)
	old, err3 := client.OpenSSE(w.ctx, "http://"+w.p.Addr+"/sse", w.rt)
	if err := errors.Join(err, err2, err3); err != nil {
		return nil, err
	}
	defer old.Close()
	began := time.Now()
	for _, a := range []*client.Answer{own, listens} {
		defer a.Close()
		if a.Events == nil {
			return nil, fmt.Errorf("a stream got %d %s", a.Status, a.Body)
		}
		if _, err := a.Events.Next(); err != nil { // which says that the stream has begun
			return nil, err
		}
	}
	if !w.wait(w.o.idle) {
		return nil, w.ctx.Err()
	}
	late := time.AfterFunc(patience, func() { own.Close(); listens.Close(); old.Close() })
	defer late.Stop()
	err = answeredWith("touched")(session.SendRequest(w.ctx, "2", "tools/call", `{"name":"touch","arguments":{"uri":"`+uri+`"}}`))
	_, err2 = own.Events.Next()
	_, err3 = listens.Events.Next()
	if err := errors.Join(err, err2, err3, old.SendRequest(w.ctx, "1", "ping", "")); err != nil {
		return nil, fmt.Errorf("after %v of silence: %w", w.o.idle, err)
	}
	if _, err := old.Next(); err != nil {
		return nil, fmt.Errorf("HTTP+SSE after %v of silence: %w", w.o.idle, err)
	}
	r := &throughReport{Idle: time.Since(began).Seconds()}
	var delays, took []time.Duration
	for range 3 {
		for _, send := range []func(emit string) (*client.Answer, error){
			func(emit string) (*client.Answer, error) {
				return session.SendRequest(w.ctx, `"e"`, "tools/call", `{`+emit+`,"_meta":{"progressToken":"e"}}`)
			},
			func(emit string) (*client.Answer, error) {
				return without.SendRequest(w.ctx, `"e"`, "tools/call", emit)
			},
		} {
			all, err := readDelays(send(`"name":"emit","arguments":{"times":100,"ms":20,"bytes":0}`))
			if err != nil {
				return nil, err
			}
			delays, began = append(delays, all...), time.Now()
			a, err := send(fmt.Sprintf(`"name":"emit","arguments":{"times":0,"ms":0,"bytes":%d}`, largeBytes))
			if err != nil {
				return nil, err
			}
			body, err := lastOf(a)
			if m := parse(body); err != nil || len(m.text()) != largeBytes {
				return nil, fmt.Errorf("a result of %d bytes has %d, with status %d: %w", largeBytes, len(m.text()), a.Status, err)
			}
			took = append(took, time.Since(began))
		}
	}
	r.Events, r.Large = latencyOf(delays), latencyOf(took)
	return r, nil
}

// readDelays reads the stream of a call of emit, whose events say when they were written.
func readDelays(a *client.Answer, err error) (all []time.Duration, _ error) {
	if err != nil {
		return nil, err
	}
	defer a.Close()
	if a.Status != http.StatusOK || a.Events == nil {
		return nil, fmt.Errorf("emit got %d %s", a.Status, a.Body)
	}
	for {
		e, err := a.Events.Next()
		now := time.Now()
		if err != nil {
			return nil, err
		}
		switch m := parse(e.Data); {
		case m.Method == "notifications/progress":
			all = append(all, now.Sub(time.UnixMicro(int64(m.Params.Progress))))
		case m.answers(`"e"`) && len(all) < 90: // of which some may have been dropped for newer ones
			return nil, fmt.Errorf("only %d events of 100 came", len(all))
		case m.answers(`"e"`):
			return all, nil
		}
	}
}
