package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTable(t *testing.T) {
	t.Parallel()
	const printed = `goos: linux
BenchmarkScan/body=text/by=troupe-2         	     100	    12345 ns/op	6001.25 MB/s	       0 allocs/op
BenchmarkScan/body=text/by=encoding/json-2  	     100	  1234567 ns/op	  95.125 MB/s	       9 allocs/op
BenchmarkScan/body=text/by=troupe-2         	     100	    12345 ns/op	5000 MB/s	       0 allocs/op
BenchmarkScan/body=text/by=troupe-2         	     100	    12345 ns/op	7000 MB/s	       1 allocs/op
BenchmarkOpen-2                             	     100	    6000000 ns/op
PASS
`
	for name, c := range map[string]struct {
		units []string
		want  string
	}{
		"all": {nil, `| Scan | unit | troupe | encoding/json |
|---|---|---|---|
| body=text | ns/op | 12,345 | 1,234,567 |
| body=text | MB/s | 6,001 (5,000 to 7,000) | 95.1 |
| body=text | allocs/op | 0 (0 to 1) | 9 |

| Open | unit | - |
|---|---|---|
|  | ns/op | 6,000,000 |

`},
		"one unit": {[]string{"MB/s"}, `| Scan | unit | troupe | encoding/json |
|---|---|---|---|
| body=text | MB/s | 6,001 (5,000 to 7,000) | 95.1 |

`},
	} {
		f, err := read(strings.NewReader(printed), "by", c.units)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := f.write(&b); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(b.String(), c.want); diff != "" {
			t.Errorf("%s: got, want:\n%s", name, diff)
		}
	}
	if _, err := read(strings.NewReader("BenchmarkX 1 a ns/op"), "by", nil); err == nil {
		t.Error("a line without a figure was read")
	}
}
