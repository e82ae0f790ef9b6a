package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// made makes a task of 2025-11-25 in a session, and returns its id.
func (s *seated) made(t *testing.T, p *process, name, arguments string) string {
	t.Helper()
	_, _, body := p.request(t, "POST", "/mcp", s.session, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"task":{},`+tool(name, arguments)+`}}`)
	var m struct {
		Result struct{ Task struct{ TaskID string } }
	}
	if json.Unmarshal([]byte(lastMessage(body)), &m) != nil || m.Result.Task.TaskID == "" {
		t.Fatalf("%s is answered with %s", name, body)
	}
	return m.Result.Task.TaskID
}

// wait calls tasks/result, which brings the question.
func (s *seated) wait(t *testing.T, p *process, request, id, question string) {
	t.Helper()
	var err error
	if s.stream, err = p.post(t.Context(), fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tasks/result","params":{"taskId":%q}}`, request, id), s.header()...); err != nil {
		t.Fatal(err)
	}
	m, err := s.next()
	if err != nil || m.Method != "elicitation/create" || m.Params.Message != question {
		t.Fatalf("it is asked %+v (%v)", m, err)
	}
	s.question = string(m.ID)
}

// TestQuestionsOfTasksSurviveAKill kills the process while tasks of both eras wait for answers, of which some were put to the client.
// The next process asks the same, answers of each era complete each task, and nothing was asked or answered twice.
func TestQuestionsOfTasksSurviveAKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, "--data", dir)
	s := sit(t, p, "2025-11-25")
	type waiting struct{ id, file, answered string }
	var tasks []waiting
	for i, made := range []string{"2025-11-25", "2026-07-28"} {
		for k, answered := range []string{"2025-11-25", "2026-07-28"} {
			w := waiting{file: fmt.Sprintf("%d%d.txt", i, k), answered: answered}
			if made == "2025-11-25" {
				w.id = s.made(t, p, "confirm_delete", fmt.Sprintf(`{"filename":%q}`, w.file))
			} else {
				w.id = p.begun(t, "confirm_delete", fmt.Sprintf(`{"filename":%q}`, w.file))
			}
			p.until(t, w.id, "input_required")
			if k == 0 { // the question is under way when the process dies
				s.wait(t, p, "before "+w.id, w.id, "Delete "+w.file+"?")
			}
			tasks = append(tasks, w)
		}
	}
	p.signal(t, syscall.SIGKILL)
	p.exit(t)
	p = start(t, "--data", dir)
	for _, w := range tasks {
		asked := p.until(t, w.id, "input_required")
		if len(asked.Result.InputRequests) != 1 || !strings.Contains(asked.body, "Delete "+w.file+"?") {
			t.Errorf("after the restart it asks %s", asked.body)
		}
		if w.answered == "2025-11-25" {
			s.wait(t, p, "after "+w.id, w.id, "Delete "+w.file+"?")
			x, err := p.post(t.Context(), `{"jsonrpc":"2.0","id":`+s.question+`,"result":{"action":"accept","content":{"confirm":true}}}`, s.header()...)
			if err != nil {
				t.Fatal(err)
			}
			x.close()
			if m, err := s.next(); err != nil || string(m.ID) != fmt.Sprintf("%q", "after "+w.id) || len(m.Result.Content) != 1 {
				t.Errorf("the answer is taken with %s, and then comes %+v (%v)", x.Status, m, err)
			}
			s.stream.close()
		} else {
			for key := range asked.Result.InputRequests {
				if got := p.task(t, "tasks/update", w.id, answer(w.id, fmt.Sprintf("%q", key), "true")); got.Error != nil || got.status != http.StatusOK {
					t.Errorf("an answer: %d %s", got.status, got.body)
				}
			}
		}
		if done := p.until(t, w.id, "completed"); len(done.Result.Result.Content) != 1 || done.Result.Result.Content[0].Text != `action=accept, content={"confirm":true}` {
			t.Errorf("it ends with %s", done.body)
		}
	}
}
