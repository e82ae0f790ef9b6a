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
		"a newer boot's ends what is left":     {5, func(m *Machine) { m.Wrote(0, true, errAny); m.Found("c", 7, false, nil) }, Over, ErrTaken, 1},
		"unreadable, so of another":            {0, func(m *Machine) { m.Found("", 7, false, nil) }, Over, ErrTaken, 1},
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
	taken := New("b", 5)
	taken.Renewed = 9
	for now := range time.Duration(5) { // it ends at once what is left, and is over from then on
		taken.Renew(10 + now)
		taken.Found("c", 7, false, nil)
	}
	if taken.Renewed != 10-5-1 {
		t.Errorf("a lease that a newer boot has ended counts as renewed at %d, want %d", taken.Renewed, 10-5-1)
	}
}

// TestSteady has a node renew its lease of 5 s each second, but for an outage, and asks when it may say of others that they are gone.
func TestSteady(t *testing.T) {
	for name, row := range map[string]struct {
		away    time.Duration // in seconds: between two renewals
		expired bool          // the entry was gone then
		to      time.Duration // in seconds, after that renewal: before, it may not say so
	}{
		"it has just begun":                      {0, true, 7},
		"each renewal in time":                   {1, false, 0},
		"late, but others' entries lived":        {2, false, 0},
		"so late that others' may have expired":  {3, false, 7},
		"its lease was over":                     {9, true, 7},
		"over, and its entry not yet taken away": {6, false, 7},
	} {
		m := New("b", 5*time.Second)
		now := 100 * time.Second
		renew := func(expired bool) {
			m.Renew(now)
			if m.Next() == Update && expired {
				m.Wrote(0, true, errAny)
			}
			if m.Next() == Read {
				m.Found("", 0, true, errAny)
			}
			if m.Wrote(m.Rev+1, false, nil); m.Err != nil {
				t.Fatalf("%s: %v", name, m.Err)
			}
		}
		renew(true)
		if row.away > 0 {
			for range 20 {
				now += time.Second
				renew(false)
			}
			if !m.Steady(now) {
				t.Fatalf("%s: not steady after 20 s", name)
			}
			for range row.away {
				if now += time.Second; m.Steady(now) != (now-m.Renewed <= 2*time.Second) {
					t.Errorf("%s: %v after its last renewal, steady is %t", name, now-m.Renewed, m.Steady(now))
				}
			}
			renew(row.expired)
		}
		for after := time.Duration(0); after < 10; after++ {
			if got := m.Steady(now); got != (after >= row.to) {
				t.Errorf("%s: %d s later, steady is %t", name, after, got)
			}
			now += time.Second
			renew(false)
		}
	}
}
