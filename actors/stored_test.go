package actors

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe/actors/internal/record"
	"github.com/troupe-run/troupe/actors/internal/session"
	"github.com/troupe-run/troupe/codec"
)

// TestStoredRecordsLoad loads the records that earlier releases stored. A file never
// changes: a new layout adds one.
func TestStoredRecordsLoad(t *testing.T) {
	day := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	load := func(file string, into any) {
		t.Helper()
		data, err := os.ReadFile("testdata/stored/" + file)
		if err == nil {
			err = codec.Unmarshal(data, into)
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	var s session.Record
	load("session-1.json", &s)
	if diff := cmp.Diff(session.Record{Version: 1, Revision: "2025-11-25", Client: json.RawMessage(`{"name":"x","version":"1"}`),
		Capabilities: json.RawMessage(`{"roots":{}}`), Level: "error", Subscribed: []string{"a://b"}, Standalone: "aaaaaaaaaaaaaaaaaaaaaaaaaa",
		Announced: "1 2 3", Created: day, Written: day, Expires: day.Add(72 * time.Hour)}, s); diff != "" {
		t.Errorf("session record (-want +got):\n%s", diff)
	}
	var w record.Stream
	load("writer-1.json", &w)
	if diff := cmp.Diff(record.Stream{Version: 1, Node: "n", Boot: "b", Epoch: 2, Tail: 9, Revision: "2025-11-25", Safe: true,
		Calls:     []record.Call{{ID: json.RawMessage("3"), Method: "tools/call", Token: json.RawMessage(`"t"`)}},
		Principal: json.RawMessage(`{"issuer":"i","subject":"s"}`), Sent: record.Sent{Messages: 4, Progressed: true, Progress: 2.5}}, w); diff != "" {
		t.Errorf("writer record (-want +got):\n%s", diff)
	}
	var d record.Stream
	load("writer-2.json", &d)
	if diff := cmp.Diff(record.Stream{Version: 2, Node: "n", Boot: "b", Epoch: 70001, Attempt: 2, Tail: 9, Low: 3, Bytes: 700, Revision: "2025-03-26", Safe: true,
		Calls: []record.Call{{ID: json.RawMessage("3"), Method: "tools/call"}, {ID: json.RawMessage(`"4"`), Method: "tools/call", Never: true}},
		More:  record.Sents{{Messages: 1}},
		Digest: record.Digest{Seen: record.Seen{Append: 8, Epoch: 70001, Entry: 1}, Done: []int{1}, Questions: []record.Question{
			{ID: `"n.b.1"`, Key: "elicit", Use: 1, Answer: json.RawMessage(`{"action":"decline"}`)}, {ID: `"n.b.2"`, Key: "elicit", Use: 2, Answer: json.RawMessage(`{"code":1}`), Failed: true},
			{ID: `"n.b.3"`, Key: "roots", Use: 1, Member: 1}}},
		Earlier: []record.Watermark{{Seen: record.Seen{Append: 4, Epoch: 70001}, Upto: 6}}}, d); diff != "" {
		t.Errorf("writer record (-want +got):\n%s", diff)
	}
	again, err := codec.Marshal(d)
	if want, _ := os.ReadFile("testdata/stored/writer-2.json"); err != nil || string(again) != strings.TrimSpace(string(want)) {
		t.Errorf("this release writes another layout: add it under testdata/stored\n%s", again)
	}
}

// TestRecordsKeepWhatANewerReleaseSays has a newer release add to the records of a session and of a running call. This release
// changes the one and takes the other over, and leaves in both what it does not know.
func TestRecordsKeepWhatANewerReleaseSays(t *testing.T) {
	const more = `"later":{"x":[1]}`
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		h.svc.Handler = safeHandler{h.handler}
		h.handler.f = ticks(5 * time.Second)
		c, name := &heldConn{}, h.begin("2025-11-25")
		go h.postOn(c, name, aCall)
		time.Sleep(11 * time.Second)
		before := c.lastID()
		was := make(map[string]uint64)
		h.mem.mu.Lock()
		for key, r := range h.mem.records {
			was[key] = r.rev
			r.data = append(append(r.data[:len(r.data)-1:len(r.data)-1], ','), more+"}"...)
			h.mem.records[key] = r
		}
		h.mem.mu.Unlock()
		n, svc, end := h.heir(safeHandler{&heldHandler{f: ticks(time.Second)}}, Limits{})
		defer end()
		back := h.resume(n, svc, name, before)
		time.Sleep(time.Minute)
		if len(back.events()) < 2 {
			t.Errorf("the call does not go on: %q", back.events())
		}
		s, ok := n.sessions.Get(SessionKey{"anon", svc.ID, name})
		if !ok {
			t.Fatal("the session is not there")
		}
		if err := s.home.changeRecord(t.Context(), func(r *session.Record) bool { r.Level = "error"; return true }); err != nil {
			t.Fatal(err)
		}
		h.mem.mu.Lock()
		defer h.mem.mu.Unlock()
		for key, r := range h.mem.records {
			if r.rev == was[key] || !strings.Contains(string(r.data), more) {
				t.Errorf("%s was not written again, or is now %s", key, r.data)
			}
		}
	})
}
