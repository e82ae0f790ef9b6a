package client

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// recordOf makes a record of connections written as "from: id=data id=data".
func recordOf(lines ...string) *Record {
	r := &Record{Stream: "s"}
	for _, l := range lines {
		from, rest, _ := strings.Cut(l, ":")
		c := r.addConnection("GET", from)
		for _, f := range strings.Fields(rest) {
			id, data, _ := strings.Cut(f, "=")
			c.addEvent(Event{ID: id, Data: data})
		}
	}
	return r
}

func TestMerge(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		conns []string
		want  string // ids, or
		err   string
	}{
		"one connection":       {[]string{":s.0.0= s.1.0=a s.2.0=b"}, "s.0.0 s.1.0 s.2.0", ""},
		"the rest":             {[]string{":s.0.0= s.1.0=a", "s.1.0: s.1.1=b s.10.0=c"}, "s.0.0 s.1.0 s.1.1 s.10.0", ""},
		"an overlap":           {[]string{":s.0.0= s.1.0=a s.2.0=b", "s.0.0: s.1.0=a s.2.0=b s.3.0=c"}, "s.0.0 s.1.0 s.2.0 s.3.0", ""},
		"nothing new":          {[]string{":s.1.0=a", "s.1.0:"}, "s.1.0", ""},
		"its place, twice":     {[]string{":s.0.0= s.1.0=a", "s.0.0: s.0.0= s.0.0= s.1.0=a s.2.0=b"}, "s.0.0 s.1.0 s.2.0", ""},
		"two payloads":         {[]string{":s.1.0=a", ":s.1.0=b"}, "", "two payloads"},
		"an event twice":       {[]string{":s.1.0=a s.1.0=a"}, "", "came after"},
		"out of order":         {[]string{":s.2.0=a s.1.0=a"}, "", "came after"},
		"not after its origin": {[]string{":s.1.0=a s.2.0=b", "s.2.0: s.2.0=b"}, "", "came after"},
		"a gap in the first":   {[]string{":s.0.0= s.2.0=b", "s.0.0: s.1.0=a s.2.0=b"}, "", "connection 1: got s.2.0 where s.1.0 follows"},
		"a gap at the seam":    {[]string{":s.0.0= s.1.0=a s.2.0=b s.3.0=c", "s.1.0: s.3.0=c"}, "", "connection 2: got s.3.0 where s.2.0 follows"},
		"another stream":       {[]string{":s.0.0= x.1.0=a"}, "", "came on a connection"},
		"an origin unknown":    {[]string{":s.1.0=a", "s.9.0: s.10.0=b"}, "", "never came"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			events, err := recordOf(tt.conns...).MergeEvents()
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("got %v, %v; want an error with %q", events, err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, e := range events {
				ids = append(ids, e.ID)
			}
			if diff := cmp.Diff(tt.want, strings.Join(ids, " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}
