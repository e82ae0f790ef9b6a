package cluster

import (
	"os"
	"testing"
	"time"
)

// TestMemoryLeavesNothing looks for files of a node without a directory, both while the node runs, because a killed
// node could not remove them later, and after its end.
func TestMemoryLeavesNothing(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	t.Setenv("TMP", tmp) // on Windows
	n, err := Open(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	empty := func(when string) {
		t.Helper()
		if files, err := os.ReadDir(tmp); len(files) > 0 || err != nil {
			t.Errorf("%s there are %v, %v", when, files, err)
		}
	}
	empty("after the start")
	rev, err := n.OpenStream(t.Context(), testStream, []byte("w"), nil, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for num := range uint64(10) {
		if err := appendWait(n, testStream, rev, num+1, []byte("data")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := n.Create(t.Context(), testKey, []byte("x"), time.Hour); err != nil {
		t.Fatal(err)
	}
	empty("after some writes")
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	empty("after the end")
}
