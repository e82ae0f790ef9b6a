package main

import (
	"fmt"
	"testing"
)

func TestWeightSettings(t *testing.T) {
	t.Parallel()
	s, err := parsed(t, "memory: true\nweight: [192.0.2.7=4, \"2001:db8::/64=2\"]\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(s.options().Shared.Weights); got != "map[192.0.2.7:4 2001:db8::/64:2]" {
		t.Errorf("weights are %s", got)
	}
	if s, err := parsed(t, "", "--memory", "--set", "weight=192.0.2.7=4", "--set", "weight=https://issuer.example/?a=b sub=9"); err != nil || s.weights.String() != "192.0.2.7=4,https://issuer.example/?a=b sub=9" {
		t.Errorf("weights are %v, %v", &s.weights, err)
	}
	for _, bad := range []string{"", "192.0.2.7", "=4", "192.0.2.7=", "192.0.2.7=many", "192.0.2.7=1.5"} {
		if _, err := parsed(t, "", "--memory", "--set", "weight="+bad); err == nil {
			t.Errorf("%q is taken for a weight", bad)
		}
	}
	if _, err := parsed(t, "", "--memory", "--set", "weight=192.0.2.7=4", "--set", "weight=192.0.2.7=5"); err == nil {
		t.Error("a client has two weights")
	}
}
