package histories

import (
	"encoding/json"
	"reflect"
	"regexp"
	"testing"
	"time"
)

// shrinkFor bounds the search for a smaller history, in real time.
const shrinkFor = 20 * time.Second

// shrink looks for a smaller plan whose history is wrong in the same way, in one of so many times. It returns the plan and its history.
func shrink[P any](t *testing.T, p P, wrong History, times int, happen func(*testing.T, P) History) (P, History) {
	t.Helper()
	kind := kindOf(wrong)
	until := time.Now().Add(shrinkFor)
	for smaller := true; smaller; {
		smaller = false
		for i := 0; time.Now().Before(until); i++ {
			q, ok := without(p, i)
			if !ok {
				break
			}
			for range times {
				if got := happen(t, q); len(got.Faults) > 0 && kindOf(got) == kind {
					p, wrong, smaller = q, got, true
					i--
					break
				}
			}
		}
	}
	return p, wrong
}

var names = regexp.MustCompile(`[a-z2-7]{4}\.\d+\.\d+|[\d.]+|"[^"]*"`)

// kindOf returns what is wrong with a history, without the names.
func kindOf(h History) string {
	kind := names.ReplaceAllString(h.Faults[0], "")
	return kind[:min(len(kind), 40)]
}

// without returns a copy of a plan without its i-th part; ok is false when it has fewer parts.
func without[P any](p P, i int) (q P, ok bool) {
	text, err := json.Marshal(p)
	if err == nil {
		err = json.Unmarshal(text, &q)
	}
	if err != nil {
		panic(err)
	}
	return q, leaveOut(reflect.ValueOf(&q).Elem(), &i)
}

// leaveOut leaves the i-th part of v out, large parts first. If v has fewer parts, it takes their number from i.
func leaveOut(v reflect.Value, i *int) bool {
	part := func() bool { *i--; return *i < 0 }
	if v.Kind() != reflect.Struct {
		return false
	}
	for k := range v.NumField() {
		f, tag := v.Field(k), v.Type().Field(k).Tag.Get("shrink")
		switch {
		case tag == "zero":
			if !f.IsZero() && part() {
				f.SetZero()
				return true
			}
		case tag == "any" || tag == "one" && f.Len() > 1:
			for n := range f.Len() {
				if part() {
					f.Set(reflect.AppendSlice(f.Slice(0, n), f.Slice(n+1, f.Len())))
					return true
				}
			}
		}
	}
	for k := range v.NumField() {
		if f := v.Field(k); f.Kind() == reflect.Slice {
			for n := range f.Len() {
				if leaveOut(f.Index(n), i) {
					return true
				}
			}
		}
	}
	return false
}
