package stream

import (
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// stored is the content of the appends under testdata/stored, whichever release wrote
// them.
var stored = Append{Num: 7, Last: true, Entries: []Entry{
	{Kind: Message, Meta: []byte{1}, Data: []byte(`{"jsonrpc":"2.0","method":"notifications/message"}`)},
	{Kind: Request, Meta: []byte("\"n.b.1\"\x00key"), Data: []byte(`{"jsonrpc":"2.0","id":"n.b.1","method":"ping"}`)},
	{Kind: Answer, Meta: []byte(`"n.b.1"`), Data: []byte(`r{}`)},
	{Kind: Final, Meta: []byte("3"), Data: []byte(`{"jsonrpc":"2.0","id":3,"result":{}}`)},
}}

// TestStoredAppendsLoad loads the appends that earlier releases stored. A file never
// changes: a new layout adds one.
func TestStoredAppendsLoad(t *testing.T) {
	files, err := filepath.Glob("testdata/stored/*.hex")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stored appends: %v", err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		data, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
		if err != nil {
			t.Fatal(err)
		}
		var r Reader
		got, ok, err := r.Add(7, data)
		if err != nil || !ok {
			t.Errorf("%s: %v, %v", f, ok, err)
			continue
		}
		want := stored
		if filepath.Base(f) != "append-1.hex" {
			want.Epoch = 3
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Entry{}, "Acked")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", f, diff)
		}
	}
	newest, err := os.ReadFile(files[len(files)-1])
	if err != nil {
		t.Fatal(err)
	}
	written := encodeEntries(stored.Entries, true, 1<<20)[0]
	setEpoch(written, 3)
	if now := hex.EncodeToString(written); now != strings.Join(strings.Fields(string(newest)), "") {
		t.Errorf("this release writes another layout: add it under testdata/stored\n%s", now)
	}
}

func TestNewerAppendIsRefused(t *testing.T) {
	var r Reader
	if _, ok, err := r.Add(1, []byte{appendVersion + 1, 0, 0}); ok || !errors.Is(err, ErrNewer) {
		t.Errorf("an append of a newer release: %v, %v", ok, err)
	}
}
