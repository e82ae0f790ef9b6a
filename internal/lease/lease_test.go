package lease

import (
	"errors"
	"testing"
	"time"
)

var errAny = errors.New("some error")

// TestARenewal walks the ways of a renewal: what it does, and when the lease counts from.
func TestARenewal(t *testing.T) {
	for name, row := range map[string]struct {
		rev  uint64
		do   func(m *Machine)
		next Do
		err  error
		from time.Duration // Renewed
	}{
		"written":                              {5, func(m *Machine) { m.Wrote(6, false, nil) }, Over, nil, 10},
		"unknown":                              {5, func(m *Machine) { m.Wrote(0, false, errAny) }, Over, errAny, 1},
		"another revision":                     {5, func(m *Machine) { m.Wrote(0, true, errAny) }, Read, nil, 1},
		"its own, from an unknown write":       {5, func(m *Machine) { m.Wrote(0, true, errAny); m.Found("b", 7, false, nil) }, Update, nil, 1},
		"expired":                              {5, func(m *Machine) { m.Wrote(0, true, errAny); m.Found("", 0, true, errAny) }, Create, nil, 1},
		"created":                              {0, func(m *Machine) { m.Found("", 0, true, errAny); m.Wrote(8, false, nil) }, Over, nil, 10},
		"somebody created it meanwhile":        {0, func(m *Machine) { m.Found("", 0, true, errAny); m.Wrote(0, true, errAny) }, Over, errAny, 1},
		"a newer boot's ends what is left":     {5, func(m *Machine) { m.Wrote(0, true, errAny); m.Found("c", 7, false, nil) }, Over, ErrTaken, 10 - 5 - 1},
		"unreadable, so of another":            {0, func(m *Machine) { m.Found("", 7, false, nil) }, Over, ErrTaken, 10 - 5 - 1},
		"it cannot be read, the lease goes on": {0, func(m *Machine) { m.Found("", 0, false, errAny) }, Over, errAny, 1},
	} {
		m := New("b", 5)
		m.Rev, m.Renewed = row.rev, 1
		m.Renew(10)
		if want := map[bool]Do{true: Read, false: Update}[row.rev == 0]; m.Next() != want {
			t.Errorf("%s: it begins with %d, want %d", name, m.Next(), want)
		}
		row.do(m)
		if m.Next() != row.next || !errors.Is(m.Err, row.err) || m.Renewed != row.from {
			t.Errorf("%s: next is %d, %v, renewed at %d; want %d, %v, %d", name, m.Next(), m.Err, m.Renewed, row.next, row.err, row.from)
		}
	}
	m := New("b", 5)
	if m.Renewed = 10; !m.Certain(15) || m.Certain(16) {
		t.Error("the lease does not last for its term")
	}
}

// TestAbsences checks that a time without the lease in which others went on is told from one in which nobody could renew anything.
func TestAbsences(t *testing.T) {
	for name, row := range map[string]struct {
		gap    time.Duration
		writes uint64 // of all nodes until the lease is back, that included
		after  time.Duration
		want   bool
	}{
		"others went on":                {100, 81, 10, true},
		"nobody did":                    {100, 8, 10, false},
		"others went on, and long ago":  {100, 81, 81, false},
		"too short":                     {80, 81, 10, false},
		"a power cut took entries back": {100, 0, 10, false},
	} {
		m := New("b", 5)
		m.Rev, m.Renewed = 1000, 7
		m.Renew(8)
		m.Wrote(0, false, errAny)
		m.Renew(7 + row.gap)
		m.Wrote(0, true, errAny)
		m.Found("", 0, true, errAny)
		if m.Wrote(1000+row.writes, false, nil); m.Err != nil {
			t.Fatalf("%s: %v", name, m.Err)
		}
		if got := m.Away.Missed(80, 7+row.gap+row.after); got != row.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
