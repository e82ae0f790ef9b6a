package cluster

import (
	"bytes"
	"testing"
	"time"
)

// TestTag checks that a tag is the same in the next process on the store, and differs by data and by store.
func TestTag(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := open(t, Options{Dir: dir})
	a, b := n.Keys().Tag([]byte("a")), n.Keys().Tag([]byte("b"))
	if len(a) != 8 || bytes.Equal(a, b) {
		t.Errorf("tags %x and %x", a, b)
	}
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again := open(t, Options{Dir: dir}).Keys().Tag([]byte("a")); !bytes.Equal(again, a) {
		t.Errorf("the next process has another tag, %x, want %x", again, a)
	}
	if other := open(t, Options{}).Keys().Tag([]byte("a")); bytes.Equal(other, a) {
		t.Error("another store has the same tag")
	}
}

// TestTagKeyOfAnotherRelease checks that the node goes on without tags.
func TestTagKeyOfAnotherRelease(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := open(t, Options{Dir: dir})
	_, rev, err := n.Get(t.Context(), tagRecord)
	if err == nil {
		_, err = n.Update(t.Context(), tagRecord, []byte("longer than the key of this release would ever be"), rev, time.Hour)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if tag := open(t, Options{Dir: dir}).Keys().Tag([]byte("a")); tag != nil {
		t.Errorf("tag %x", tag)
	}
}
