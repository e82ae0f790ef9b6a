package replay

import (
	"bytes"
	"slices"
	"testing"

	"github.com/troupe-run/troupe/actors/internal/stream"
)

// parts returns an append of one event in two parts, as they are stored.
func parts(text string) [2][]byte {
	a := stream.Append{Epoch: 7, Entries: []stream.Entry{{Kind: stream.Message, Data: bytes.Repeat([]byte(text), 20)}}}
	data := a.Encode()
	const head, more, cont = 10, 2, 4
	half := head + (len(data)-head)/2
	first := slices.Clone(data[:half])
	rest := append(slices.Clone(data[:head]), data[half:]...)
	first[1] |= more
	rest[1] |= cont
	return [2][]byte{first, rest}
}

// TestCursorReadsApart checks that the beginning of an event, of which a writer that was lost stored no more, is not put before the
// rest of another one that is read after it.
func TestCursorReadsApart(t *testing.T) {
	t.Parallel()
	earlier, later := parts("first"), parts("a later one")
	log := [][]byte{earlier[0], earlier[1], later[0]} // appends 1 to 3
	c := Cursor{Pos: stream.Position{Append: 2, Epoch: 7}}
	read := func(from, to uint64) []stream.Append {
		t.Helper()
		c.BeginReading(from)
		for num := from; num <= to; num++ {
			c.AddAppend(num, log[num-1])
		}
		all, err := c.EndReading(to)
		if err != nil {
			t.Fatalf("appends %d to %d: %v", from, to, err)
		}
		return all
	}
	if all := read(1, 2); len(all) != 1 || len(all[0].Entries) != 1 {
		t.Errorf("an event in two parts: %+v", all)
	}
	read(3, 3)
	if err := c.FindPlace(3, nil); err != nil {
		t.Fatal(err)
	}
	first := read(c.Next, 3)
	if err := c.JudgeEvent(first); err != nil || c.Next != 3 {
		t.Errorf("the id of the first event: %v, next is %d", err, c.Next)
	}
	read(1, 1) // what follows at once is put together
	if all := read(2, 2); len(all) != 1 {
		t.Errorf("the rest of an event, read by itself: %+v", all)
	}
}
