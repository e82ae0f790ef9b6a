package codec

import (
	"encoding/json"
	"errors"
	"math/big"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

// TestIntegersInAnyForm checks that integers are accepted however they are written.
func TestIntegersInAnyForm(t *testing.T) {
	for raw, want := range map[string]int64{
		"3.0": 3, "1e2": 100, "1E+2": 100, "-2.50e1": -25, "0.0": 0, "-0.0": 0, "0e99999999999": 0, "120e-1": 12, "1.5e1": 15, "0.003e3": 3,
		"9223372036854775807.0": 9223372036854775807, "-9223372036854775808.000": -9223372036854775808, "9.007199254740993e15": 9007199254740993,
		"100000000000000000000000e-22": 10,
	} {
		var v struct {
			S string
			N int64
			P *int64
			L []int64
		}
		data := `{"S":"1.5e3","N":` + raw + `,"P": ` + raw + ` ,"L":[1,` + raw + `]}`
		if err := Unmarshal([]byte(data), &v); err != nil || v.N != want || v.P == nil || *v.P != want || len(v.L) != 2 || v.L[1] != want || v.S != "1.5e3" {
			t.Errorf("%s: %+v, %v, want %d", raw, v, err, want)
		}
	}
}

// TestNumbersThatAreNoInteger checks that a number that is not an integer, or does not
// fit its type, is refused with its place.
func TestNumbersThatAreNoInteger(t *testing.T) {
	for _, raw := range []string{"1.5", "10.5", "-100.25", "100.5e-1", "1e-1", "15e-1", "1e19", "1e30", "1e300", "9223372036854775808.0", "-1.0000000000000000000000001", `"3.0"`} {
		var v struct{ A, N int64 }
		data := `{"A":1e3,"N":` + raw + `}`
		err := Unmarshal([]byte(data), &v)
		wrong, ok := err.(*DecodeError)
		if !ok || wrong.Offset >= 0 && !strings.HasPrefix(strings.TrimPrefix(data[wrong.Offset:], `"`), strings.Trim(raw, `"`)) {
			t.Errorf("%s: %v", raw, err)
		}
	}
	var small struct{ N int8 }
	if err := Unmarshal([]byte(`{"N":1.28e2}`), &small); err == nil {
		t.Errorf("128 in an int8: %+v", small)
	}
	var unsigned struct{ N uint64 }
	if err := Unmarshal([]byte(`{"N":1.8446744073709551615e19}`), &unsigned); err != nil || unsigned.N != 1<<64-1 {
		t.Errorf("%+v, %v", unsigned, err)
	}
}

// TestBigIntegersInAnyForm checks the same for big.Int, which decodes itself.
func TestBigIntegersInAnyForm(t *testing.T) {
	long := "1" + strings.Repeat("0", 200)
	for raw, want := range map[string]string{
		"5": "5", "5.0": "5", "5e0": "5", "-0.0": "0", "2.50e1": "25", "1e30": "1" + strings.Repeat("0", 30), "1.5e+308": "15" + strings.Repeat("0", 307),
		"123456789012345678901234567890.0": "123456789012345678901234567890", long + ".0": long, "12000000000000000000000000e-1": "1200000000000000000000000",
	} {
		var v struct {
			N big.Int
			P *big.Int
			L []big.Int
			M map[string]*big.Int
			F float64
		}
		data := `{"N":` + raw + `,"P":` + raw + `,"L":[1,` + raw + `],"M":{"1.0":` + raw + `},"F":1.50}`
		if err := Unmarshal([]byte(data), &v); err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		for _, n := range []*big.Int{&v.N, v.P, &v.L[1], v.M["1.0"]} {
			if n.String() != want || v.F != 1.5 {
				t.Errorf("%s became %v, want %s", raw, n, want)
			}
		}
	}
	for _, raw := range []string{"1.5", "1e-1", "1e310", "1e999999999", "-1.0000000000000000000000001", `"5.0"`, "{}"} {
		var v struct{ N big.Int }
		if err := Unmarshal([]byte(`{"N":`+raw+`}`), &v); err == nil {
			t.Errorf("%s became %v", raw, &v.N)
		}
	}
}

// TestBigIntegersLeaveOthers: numbers beside a big.Int are written out for it alone, and not for what else is wrong, nor beyond a bound
// for all of them together.
func TestBigIntegersLeaveOthers(t *testing.T) {
	type mixed struct {
		B big.Int
		T time.Time
		N json.Number
		I int
		L []float64
		M []*big.Int
	}
	many := "[" + strings.Repeat("1e308,", 10_000) + "1]"
	for name, row := range map[string]struct {
		data string
		fits bool
		n    string // N, if that is sure
	}{
		"all fits":               {`{"N":1e308,"B":1,"L":` + many + `}`, true, "1e308"},
		"another method refuses": {`{"N":1e308,"B":1,"L":` + many + `,"T":"x"}`, false, "1e308"},
		"an integer does not":    {`{"N":1e308,"B":1,"L":` + many + `,"I":1.5}`, false, "1e308"},
		"an integer has a point": {`{"N":1e308,"B":1,"L":` + many + `,"I":1.0}`, true, "1e308"},
		"big ones are":           {`{"B":1e300,"M":[1e308,2.0],"I":1.0}`, true, ""},
		"a hundred are":          {`{"M":[` + strings.Repeat("1e308,", 100) + `1]}`, true, ""},
		"too many are":           {`{"B":1,"M":` + many + `}`, false, ""},
		"and too many others":    {`{"B":1e3,"L":` + many + `}`, false, ""},
	} {
		var v mixed
		var err error
		got := allocated(func() {
			v = mixed{}
			err = Unmarshal([]byte(row.data), &v)
		})
		if (err == nil) != row.fits || row.n != "" && string(v.N) != row.n {
			t.Errorf("%s: %v, N is %.20s", name, err, v.N)
		}
		if got > 4<<20 {
			t.Errorf("%s: %d bytes are made of %d", name, got, len(row.data))
		}
	}
}

// allocated is how many bytes f allocates. What a decoder has in its pools does not count: it is there from a run before, as no collection
// empties them meanwhile, and there is one processor, which has pools of its own.
func allocated(f func()) uint64 {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // as testing.AllocsPerRun does
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	f()
	before, after := new(runtime.MemStats), new(runtime.MemStats)
	runtime.ReadMemStats(before)
	f()
	runtime.ReadMemStats(after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestIntegersThatDoNotFit has one value among many plain integers not fit: what is made to say so does not grow by their square.
func TestIntegersThatDoNotFit(t *testing.T) {
	data := []byte("[" + strings.Repeat("1,", 20_000) + `"x"]`)
	var err error
	got := allocated(func() {
		var v []int
		err = Unmarshal(data, &v)
	})
	if wrong, ok := errors.AsType[*DecodeError](err); !ok || wrong.Offset < len(data)-4 {
		t.Errorf("got %v", err)
	}
	if got > 4<<20 {
		t.Errorf("%d bytes are made of %d", got, len(data))
	}
}

func FuzzPlainInteger(f *testing.F) {
	for _, s := range []string{"3.0", "1e2", "-0.0", "120e-1", "1.5", "10.5", "0.10e1", "00", "1e21", "1e-1"} {
		f.Add(s, false)
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, s string, wide bool) {
		if len(s) > 40 || strings.ContainsAny(s, " \t\r\n") || !Valid([]byte(s)) || classes[s[0]] != classNumber {
			return
		}
		out, ok := appendPlain(nil, []byte(s), wide)
		if !ok {
			return
		}
		if e := strings.IndexAny(s, "eE"); e >= 0 && len(s)-e > 6 {
			return // such a value is not worth the work
		}
		want, _ := new(big.Rat).SetString(s)
		got, fine := new(big.Int).SetString(string(out), 10)
		if !fine || want == nil || want.Cmp(new(big.Rat).SetInt(got)) != 0 || !Valid(out) {
			t.Fatalf("%s became %s", s, out)
		}
	})
}
