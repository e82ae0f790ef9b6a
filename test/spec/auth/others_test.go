package auth_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit/issuer"
	"github.com/troupe-run/troupe/test/spec/host"
)

// callers are those who try: whether each is the user alice.
func (d *door) callers() map[string]struct {
	token string
	same  bool
} {
	return map[string]struct {
		token string
		same  bool
	}{
		"bob":                            {d.id.Token("bob", resource, nil), false},
		"a machine with alice's name":    {d.id.Token("alice", resource, issuer.Claims{"client_id": "alice"}), false},
		"a client that has no subject":   {d.id.Token("", resource, issuer.Claims{"sub": nil, "client_id": "alice"}), false},
		"alice with a refreshed token":   {d.id.Token("alice", resource, nil), true},
		"alice by way of another client": {d.id.Token("alice", resource, issuer.Claims{"client_id": "another"}), true},
	}
}

// TestOthersTasks has a task of alice, which is nobody else's: not a machine's of her name either.
func TestOthersTasks(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	troupe.AddTool(d.Server, troupe.Tool{Name: "work", Task: troupe.TaskOptional, Rerun: troupe.Safe}, func(context.Context, *troupe.Call, struct{}) (string, error) { return "done", nil })
	a := d.user("alice").Post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"work","arguments":{},"task":{"ttl":60000}}}`)
	var made struct {
		Result struct {
			Task struct{ TaskID string }
		}
	}
	if err := json.Unmarshal([]byte(a.Body), &made); err != nil || made.Result.Task.TaskID == "" {
		t.Fatalf("no task: %s", a.Body)
	}
	of := func(method string) string {
		return host.Method("2", "tasks/"+method, `{"taskId":"`+made.Result.Task.TaskID+`"}`)
	}
	for name, who := range d.callers() {
		c := d.as(who.token).Initialize(`{}`)
		for _, method := range []string{"get", "result", "cancel"} {
			if method == "cancel" && who.same {
				continue
			}
			body := c.Post(of(method)).Body
			if refused := strings.Contains(body, "there is no such task"); refused == who.same {
				t.Errorf("%s, tasks/%s: %s", name, method, body)
			}
		}
		list := c.Post(host.Method("3", "tasks/list", `{}`)).Body
		if strings.Contains(list, made.Result.Task.TaskID) != who.same {
			t.Errorf("%s, tasks/list: %s", name, list)
		}
	}
}

// TestOthersEvents has the id of an event of alice's stream, of which others get nothing.
func TestOthersEvents(t *testing.T) {
	t.Parallel()
	d := newDoor(t, func(o *troupe.Options) { o.Limits.Grace = 1e6 })
	alice := d.user("alice")
	all := alice.Post(host.CallWith("1", "count", `{"to":5,"delay_ms":20}`, "1")).All()
	if len(all) < 2 || all[0].ID == "" {
		t.Fatalf("no events: %v", all)
	}
	for name, who := range d.callers() {
		c := d.as(who.token)
		c.Session = alice.Session
		a := c.Get(all[0].ID)
		if a.Stream() != who.same {
			t.Errorf("%s resumes: %s %s", name, a.Status, a.Body)
		}
		a.Close()
		own := d.as(who.token).Initialize(`{}`)
		if a = own.Get(all[0].ID); a.Stream() && !who.same {
			t.Errorf("%s resumes in a session of its own: %s", name, a.Status)
		}
		a.Close()
	}
}

// TestOthersCursorsAndState has a cursor and a requestState of alice.
func TestOthersCursorsAndState(t *testing.T) {
	t.Parallel()
	d := newDoor(t, func(o *troupe.Options) { o.Limits.PageSize = 1 })
	alice := d.user("alice")
	cursor := `{"cursor":"` + host.Cursor(t, alice.Post(listTools)) + `"}`
	by := func(token string) *host.Stateless {
		return &host.Stateless{T: t, Client: d.as(token), Capabilities: host.EveryCapability}
	}
	for name, who := range d.callers() {
		body := d.as(who.token).Initialize(`{}`).Post(host.Method("2", "tools/list", cursor)).Body
		if strings.Contains(body, `"tools"`) != who.same {
			t.Errorf("%s goes on with the cursor: %s", name, body)
		}
		first := by(d.id.Token("alice", resource, nil))
		a, id := first.Tool("ask", `{"question":"?"}`)
		r := struct {
			Result struct {
				InputRequests map[string]json.RawMessage
				RequestState  string
			}
		}{}
		if err := json.Unmarshal([]byte(a.Body), &r); err != nil || r.Result.RequestState == "" {
			t.Fatalf("%s: no question: %s", id, a.Body)
		}
		answers := ""
		for key := range r.Result.InputRequests {
			answers = fmt.Sprintf(`"inputResponses":{%q:{"action":"accept","content":{"answer":"x"}}}`, key)
		}
		again, _ := by(who.token).Tool("ask", `{"question":"?"}`, fmt.Sprintf(`"requestState":%q`, r.Result.RequestState), answers)
		if refused := strings.Contains(again.Body, "the requestState is not valid for this request"); refused == who.same {
			t.Errorf("%s sends the answers: %s", name, again.Body)
		}
	}
}
