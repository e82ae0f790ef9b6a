package nodes_test

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestRemindersElsewhere: a task runs at one node, its session listens at another, and polls a third. Its question is on the standalone stream once,
// however many nodes remind the session; a tasks/result at any node takes it over, and keeps it from the stream; and the answer
// may go to any node.
func TestRemindersElsewhere(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	nodes(t, 3, nil, func(t *testing.T, _ *kit.VirtualNATS, all ...*host.Host) {
		for _, h := range all {
			troupe.AddTool(h.Server, troupe.Tool{Name: "ask", Task: troupe.TaskOptional}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
				r, err := call.Elicit(ctx, "Which one?", host.Form)
				return string(r.Action), err
			})
		}
		const asks, takes = `"elicitation/create"`, `"notifications/cancelled"`
		h := all[0]
		c := h.Unchecked().Initialize(host.EveryCapability)
		rest := others(all, h)
		stream := host.Listen(by(rest[0], c).Get(""))
		of := func(id, method, task string) string { return host.Method(id, "tasks/"+method, `{"taskId":"`+task+`"}`) }
		begin := func() string {
			return taskID(t, c.Post(host.Method("1", "tools/call", `{"name":"ask","arguments":{},"task":{}}`)).Body)
		}
		poll := func(task string, d time.Duration) {
			for range d / (10 * time.Second) {
				for _, n := range all {
					by(n, c).Post(of("5", "get", task))
				}
				time.Sleep(10 * time.Second)
			}
		}
		answer := func(question string) {
			var q struct{ ID json.RawMessage }
			if err := json.Unmarshal([]byte(question), &q); err != nil {
				t.Fatal(err)
			}
			by(rest[1], c).Post(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":{"action":"decline"}}`)
		}
		completed := func(task string) {
			t.Helper()
			time.Sleep(5 * time.Second)
			synctest.Wait()
			host.Contains(t, "the task", by(rest[1], c).Post(of("5", "get", task)).Body, `"completed"`)
		}
		asked := func() (all []string) {
			for _, m := range stream.Since(0) {
				if strings.Contains(m, asks) {
					all = append(all, m)
				}
			}
			return all
		}

		first := begin()
		poll(first, 5*time.Minute)
		if got := asked(); len(got) != 1 {
			t.Fatalf("%d questions are on the stream", len(got))
		}
		answer(asked()[0])
		completed(first)

		second := begin()
		result := host.Listen(by(rest[1], c).Post(of("9", "result", second)))
		poll(second, 2*time.Minute)
		if got := asked(); len(got) != 1 {
			t.Errorf("%d questions are on the stream, beside a tasks/result", len(got)-1)
		}
		answer(result.Since(0)[0])
		completed(second)

		third := begin()
		time.Sleep(10 * time.Second)
		result = host.Listen(by(rest[1], c).Post(of("9", "result", third)))
		poll(third, 2*time.Minute)
		if got, withdrawn := asked(), count(stream.Since(0), takes); len(got) != 2 || withdrawn != 1 {
			t.Errorf("the stream has %d questions and %d withdrawals, want two and one", len(got), withdrawn)
		}
		answer(result.Since(0)[0])
		completed(third)
		stream.Close()
	})
}

// TestResultsAfterEachOther: a client that calls tasks/result again, at the same node or at another one, still has its question from that call alone:
// what the call before tells when it ends does not have the node of the standalone stream ask as well.
func TestResultsAfterEachOther(t *testing.T) {
	nodes(t, 3, nil, func(t *testing.T, _ *kit.VirtualNATS, all ...*host.Host) {
		for _, h := range all {
			troupe.AddTool(h.Server, troupe.Tool{Name: "ask", Task: troupe.TaskOptional}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
				r, err := call.Elicit(ctx, "Which one?", host.Form)
				return string(r.Action), err
			})
		}
		c := all[0].Unchecked().Initialize(host.EveryCapability)
		rest := others(all, all[0])
		stream := host.Listen(by(rest[0], c).Get(""))
		defer stream.Close()
		for _, at := range [][]*host.Host{{all[0], all[0]}, {all[0], rest[1]}, {rest[1], all[0], all[0], rest[1]}} {
			task := taskID(t, c.Post(host.Method("1", "tools/call", `{"name":"ask","arguments":{},"task":{}}`)).Body)
			var results []*host.Listening
			for i, h := range at {
				results = append(results, host.Listen(by(h, c).Post(host.Method(strconv.Itoa(10+i), "tasks/result", `{"taskId":"`+task+`"}`))))
				time.Sleep(time.Second)
			}
			time.Sleep(time.Minute) // with four reminders
			if n := count(stream.Since(0), `"elicitation/create"`); n != 0 {
				t.Errorf("%d questions are on the stream beside %d calls of tasks/result", n, len(at))
			}
			last := results[len(at)-1]
			if n := count(last.Since(0), `"elicitation/create"`); n != 1 {
				t.Errorf("the last of %d calls has %d questions", len(at), n)
			}
			c.Post(host.Method("5", "tasks/cancel", `{"taskId":"`+task+`"}`))
			time.Sleep(5 * time.Second)
			for _, r := range results {
				r.Close()
			}
		}
	})
}
