package journal

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// texts are those of the lines of a page.
func texts(p Page) string {
	var all []string
	for _, l := range p.Lines {
		all = append(all, l.Text)
	}
	return strings.Join(all, " ")
}

// TestReadFollows: a reader gets each line once, is told of those that it has missed, and begins anew in the journal of another process.
func TestReadFollows(t *testing.T) {
	t.Parallel()
	j := New(4*(lineCost+1), time.Unix(1, 0))
	j.Configure([]string{"a", "b"})
	add := func(lines ...string) {
		for _, text := range lines {
			j.Add("a", Line{Text: text})
		}
	}
	add("1", "2")
	p := j.Read("a", "")
	if texts(p) != "1 2" || p.Missed != 0 {
		t.Errorf("the first page is %+v", p)
	}
	if again := j.Read("a", p.Next); texts(again) != "" || again.Next != p.Next {
		t.Errorf("nothing new is %+v", again)
	}
	add("3")
	p = j.Read("a", p.Next)
	if texts(p) != "3" {
		t.Errorf("the next page is %+v", p)
	}
	add("4", "5", "6", "7", "8", "9")
	if p := j.Read("a", p.Next); texts(p) != "6 7 8 9" || p.Missed != 2 {
		t.Errorf("behind lines that were dropped: %+v", p)
	}
	if p := j.Read("a", ""); texts(p) != "6 7 8 9" || p.Missed != 0 {
		t.Errorf("a new reader gets %+v", p)
	}
	for _, from := range []string{p.Next[1:], "x", "x.1", j.born + ".-1", j.born + ".1000"} {
		if p := j.Read("a", from); texts(p) != "6 7 8 9" {
			t.Errorf("from %q: %+v", from, p)
		}
	}
	if p := j.Read("b", ""); len(p.Lines) != 0 {
		t.Errorf("another backend has %+v", p)
	}
	if p := j.Read("c", p.Next); len(p.Lines) != 0 {
		t.Errorf("a backend that there is not has %+v", p)
	}
}

// TestBytesAreBounded: long lines push out more of the others, empty ones cost something, and one that is too long is not kept.
func TestBytesAreBounded(t *testing.T) {
	t.Parallel()
	j := New(10*lineCost, time.Unix(1, 0))
	j.Configure([]string{"a"})
	for range 100 {
		j.Add("a", Line{})
	}
	if p := j.Read("a", ""); len(p.Lines) != 10 {
		t.Errorf("%d empty lines are kept", len(p.Lines))
	}
	j.Add("a", Line{Text: strings.Repeat("x", 5*lineCost)})
	if p := j.Read("a", ""); len(p.Lines) != 5 {
		t.Errorf("%d lines are kept beside one as long as five", len(p.Lines))
	}
	j.Add("a", Line{Text: strings.Repeat("x", 10*lineCost)})
	if p := j.Read("a", ""); len(p.Lines) != 0 {
		t.Errorf("%d lines are kept", len(p.Lines))
	}
}

// TestEnds: the last ends are kept, and the last failure however many ends in order follow.
func TestEnds(t *testing.T) {
	t.Parallel()
	j := New(1000, time.Unix(1, 0))
	j.Configure([]string{"a"})
	j.AddEnd("a", End{PID: 1, Failed: "it does not start", Status: strings.Repeat("é", mostStatus)})
	for n := range mostEnds {
		j.AddEnd("a", End{PID: 2 + n, Reason: "idle"})
	}
	ends, failed := j.Ends("a")
	if len(ends) != mostEnds || ends[0].PID != 2 || ends[mostEnds-1].PID != 1+mostEnds {
		t.Errorf("the ends are %+v", ends)
	}
	if failed.PID != 1 || len(failed.Status) > mostStatus+len("…") || strings.ContainsRune(failed.Status, '�') {
		t.Errorf("the failure is %.100v", failed)
	}
	j.Configure([]string{"a", "b"})
	if ends, _ := j.Ends("a"); len(ends) != mostEnds {
		t.Errorf("with another backend beside it: %+v", ends)
	}
	j.Configure(nil)
	j.AddEnd("a", End{PID: 9})
	j.Add("a", Line{Text: "late"})
	j.Configure([]string{"a"})
	if ends, failed := j.Ends("a"); len(ends) != 0 || failed != (End{}) || len(j.Read("a", "").Lines) != 0 {
		t.Errorf("a backend that was away has %+v and %+v", ends, failed)
	}
}

// TestProcess: a line tells the number of its process also if that was not known when it came.
func TestProcess(t *testing.T) {
	t.Parallel()
	p := new(Process)
	l := Line{Of: p}
	if n := fmt.Sprint(l.Of.PID(), (*Process)(nil).PID()); n != "0 0" {
		t.Errorf("before the start: %s", n)
	}
	p.Started(7)
	if n := l.Of.PID(); n != 7 {
		t.Errorf("after it: %d", n)
	}
}
