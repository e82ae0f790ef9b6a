package actors

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/record"
	"github.com/troupe-run/troupe/internal/session"
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
