package main_test

import (
	"strings"
	"testing"
)

func TestListsThatChange(t *testing.T) {
	c := connect(t, `{}`)
	for what, method := range map[string]string{
		"tools": "tools/list", "prompts": "prompts/list", "resources": "resources/list", "templates": "resources/templates/list",
	} {
		listed := func() bool { return strings.Contains(string(c.call(method, `{}`, nil).Result), `"extra"`) }
		for _, want := range []string{"added", "removed", "added", "removed"} {
			if got := c.tool("change", `{"what":"`+what+`"}`).text(t); got != want || listed() != (want == "added") {
				t.Errorf("change of %s: %q, listed %v, want %q", what, got, listed(), want)
			}
		}
	}
	if m := c.call("tools/call", `{"name":"change","arguments":{"what":"everything"}}`, nil); m.Error == nil {
		t.Errorf("a list that is none: %s", m.Result)
	}
}
