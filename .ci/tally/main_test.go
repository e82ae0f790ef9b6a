package main

import (
	"strings"
	"testing"
)

func TestTally(t *testing.T) {
	const head = `{"Action":"start","Package":"p"}` + "\n"
	pass := `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0.1}
`
	for _, row := range []struct {
		name, input string
		ok          bool
		want        []string
	}{
		{"all is well", head + pass + `{"Action":"pass","Package":"p","Elapsed":1}`, true, []string{"1 passed, 0 failed, 0 skipped"}},
		{"nothing ran", "", false, []string{"0 passed, 0 failed, 0 skipped"}},
		{"a test is skipped", head + pass + `{"Action":"output","Package":"p","Test":"TestB","Output":"=== RUN TestB\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:12: no schemas here\n"}
{"Action":"skip","Package":"p","Test":"TestB"}
{"Action":"pass","Package":"p","Elapsed":1}`, true, []string{"skipped   1: no schemas here", "1 passed, 0 failed, 1 skipped"}},
		{"a test fails", head + pass + `{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:12: it is 1, not 2\n"}
{"Action":"fail","Package":"p","Test":"TestB"}
{"Action":"fail","Package":"p","Elapsed":1}`, false, []string{"b_test.go:12: it is 1, not 2", "FAIL p TestB", "1 passed, 2 failed"}},
		{"a test panics", head + pass + `{"Action":"output","Package":"p","Test":"TestB","Output":"panic: no\n"}
{"Action":"fail","Package":"p","Elapsed":1}`, false, []string{"panic: no", "FAIL p TestB"}},
		{"a package does not build", `{"Action":"build-output","ImportPath":"p","Output":"p.go:1: undefined: x\n"}
{"Action":"build-fail","ImportPath":"p"}
{"Action":"output","Package":"p","Output":"FAIL p [build failed]\n"}
{"Action":"fail","Package":"p","Elapsed":0,"FailedBuild":"p"}`, false, []string{"p.go:1: undefined: x", "FAIL p [build failed]"}},
		{"the go command cannot begin", "go: no such tool\n", false, []string{"go: no such tool"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			tally, out := newTally(), &strings.Builder{}
			if err := tally.read(strings.NewReader(row.input)); err != nil {
				t.Fatal(err)
			}
			if ok := tally.report(out); ok != row.ok {
				t.Errorf("well %v, want %v", ok, row.ok)
			}
			for _, want := range row.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("without %q:\n%s", want, out)
				}
			}
		})
	}
}
