package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/bench/loadgen"
)

// TestFail: what failed is added up, by kind.
func TestFail(t *testing.T) {
	t.Parallel()
	var r result
	r.addFailures(&loadgen.Report{})
	if r.Errors != nil {
		t.Errorf("nothing failed, and there is %v", r.Errors)
	}
	r.addFailures(&loadgen.Report{Errors: map[string]int64{"timeout": 2, "status 503": 1}, Examples: map[string]string{"timeout": "late", "status 503": "busy"}})
	r.addFailures(&loadgen.Report{Errors: map[string]int64{"timeout": 3}, Examples: map[string]string{"timeout": "later"}})
	if r.Failed != 6 || r.Errors["timeout"] != "later" || r.Errors["status 503"] != "busy" {
		t.Errorf("failed are %d, %v", r.Failed, r.Errors)
	}
}

// TestRested: sessions rest before the second look, and no longer than there is somebody who waits.
func TestRested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		settle := afterRest(func(context.Context) error { looks++; return nil })
		began := time.Now()
		if err := settle(t.Context()); err != nil || time.Since(began) != 0 {
			t.Errorf("the first look is after %v: %v", time.Since(began), err)
		}
		if err := settle(t.Context()); err != nil || time.Since(began) != restFor {
			t.Errorf("the second look is after %v: %v", time.Since(began), err)
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := settle(ctx); !errors.Is(err, context.Canceled) || looks != 2 {
			t.Errorf("%d looks, %v", looks, err)
		}
	})
}

// TestNamed: a group stands for its scenarios, and each is there once.
func TestNamed(t *testing.T) {
	t.Parallel()
	for names, want := range map[string]string{
		"":                  "echo-32 echo-256 stateless-32 echo-10k",
		"memory":            "sessions-0 sessions-1k sessions-10k sessions-50k streams-0 streams-1k streams-5k streams-9500",
		"beside,echo-32":    "echo-32 slow noisy",
		"size-1k,sizes":     "size-100 size-1k size-10k size-100k size-1m",
		"nodes":             "nodes-1 nodes-2 nodes-3",
		"sessions,sessions": "sessions-0 sessions-1k sessions-10k sessions-50k",
	} {
		chosen, err := scenariosNamed(names)
		var got []string
		for _, s := range chosen {
			got = append(got, s.name)
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("named(%q): %v, %v", names, got, err)
		}
	}
}

// TestFlags: a server has only the flags that its scenario needs, and stores what it holds.
func TestFlags(t *testing.T) {
	t.Parallel()
	b := binaries{troupe: "troupe", peers: "peers", repaired: "repaired"}
	for _, v := range servers {
		for _, s := range scenarios {
			if !v.speaks(s) {
				continue
			}
			flags := fmt.Sprint(v.args(b, s, "DIR"))
			stores := s.group != calls && s.group != sizes && s.group != waiting && !v.bare && !v.npm && v.name != direct
			if got := strings.Contains(flags, "--data DIR"); got != stores {
				t.Errorf("%s at %s: %s", v.name, s.name, flags)
			}
			if limited := s.name == "noisy"; limited == strings.Contains(flags, ".yaml") && v.name == "troupe-serve" {
				t.Errorf("%s at %s: %s", v.name, s.name, flags)
			}
			if strings.Contains(flags, "--streams ") || strings.HasSuffix(flags, "--streams]") != (s.name == "slow" && v.name != "troupe-serve") {
				t.Errorf("%s at %s: %s", v.name, s.name, flags)
			}
		}
	}
}

func TestOverlay(t *testing.T) {
	t.Parallel()
	file, err := writeOverlay(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var o struct{ Replace map[string]string }
	if err := json.Unmarshal(text, &o); err != nil || len(o.Replace) != 2 {
		t.Fatalf("the overlay is %s: %v", text, err)
	}
	for added, by := range o.Replace {
		if _, err := os.Stat(added); !filepath.IsAbs(added) || err == nil {
			t.Errorf("%s is there, or not absolute", added)
		}
		if _, err := os.Stat(by); err != nil {
			t.Error(err)
		}
	}
}
