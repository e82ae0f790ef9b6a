package toolschema

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"
)

func TestDecimals(t *testing.T) {
	t.Parallel()
	for _, equal := range [][]string{
		{"0", "-0", "0.0", "0e5", "-0.00E-3"}, {"1", "1.0", "10e-1", "0.1e1", "0.001E+3"}, {"100", "1e2", "100.00", "1.00e2"},
		{"-12.5", "-125e-1", "-0.125e2"}, {"10203", "1.0203e4", "10203.0"},
		{"123456789012345678901234", "123456789012345678901234.0"}, {"1" + strings.Repeat("0", 500), "1e500"},
	} {
		for _, a := range equal {
			for _, b := range equal {
				x, ok1 := parseDecimal(a)
				y, ok2 := parseDecimal([]byte(b))
				if !ok1 || !ok2 || x != y {
					t.Errorf("%s and %s: got %+v, %+v", a, b, x, y)
				}
			}
		}
	}
	for _, different := range [][2]string{{"1", "-1"}, {"1", "10"}, {"1", "0.1"}, {"0", "1"}, {"102", "12"}, {"1.02", "10.2"}} {
		x, ok1 := parseDecimal(different[0])
		y, ok2 := parseDecimal(different[1])
		if !ok1 || !ok2 || x == y {
			t.Errorf("%v: got %+v, %+v", different, x, y)
		}
	}
	for _, none := range []string{"", "-", "+1", "01", "-01", "1.", ".5", "1e", "1e+", "1e1.0", "1 ", " 1", "1_000", "0x1", "Infinity", "NaN", "1e10000",
		"1234567890123456789012345", "1.0000000000000000000000001"} {
		if d, ok := parseDecimal(none); ok {
			t.Errorf("%q: got %+v", none, d)
		}
	}
}

// FuzzDecimal compares decimals with the standard library's numbers.
func FuzzDecimal(f *testing.F) {
	for _, pair := range [][2]string{{"0", "-0.0"}, {"1", "10e-1"}, {"-12.5", "-125e-1"}, {"1e99", "2"}, {"9007199254740991", "9007199254740992"}, {"01", "+1"}} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, ok1 := parseDecimal(a)
		y, ok2 := parseDecimal(b)
		if ok1 && (!json.Valid([]byte(a)) || a == "") {
			t.Errorf("%q is taken for a number", a)
		}
		if !ok1 || !ok2 || len(a) > 100 || len(b) > 100 {
			return
		}
		p, ok1 := new(big.Rat).SetString(a)
		q, ok2 := new(big.Rat).SetString(b)
		if !ok1 || !ok2 {
			t.Fatalf("%q and %q: the standard library takes %v, %v", a, b, ok1, ok2)
		}
		if (x == y) != (p.Cmp(q) == 0) {
			t.Errorf("%s and %s: got %+v, %+v", a, b, x, y)
		}
		if unsafe := p.IsInt() && p.Num().CmpAbs(big.NewInt(1<<53-1)) > 0; x.isSafe() == unsafe {
			t.Errorf("%s: safe is %v", a, x.isSafe())
		}
	})
}
