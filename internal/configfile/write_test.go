package configfile

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLines writes a section, and reads it again: it says the same, and has no secret.
func TestLines(t *testing.T) {
	t.Parallel()
	for _, file := range []string{
		whole, "auth: {}\n", "auth:\n  claims: [a]\n", "auth:\n  scopes: [\"1\", \"true\", \"No\", \"a b\", \"a: b\", \"#\", \"\", \"-\", \"a,b\", \"[a]\", \"it's\", \"\\\"\", \"\\t\", \"\u00e9\"]\n",
		"auth:\n  implies: {\"a b\": [c], \"yes\": []}\n", "auth:\n  issuers:\n  - url: https://a.example:8443/x\n    introspection: {url: https://a.example/i, client-secret: hunter2}\n",
	} {
		a, err := readSection(file)
		if err != nil {
			t.Fatalf("%v, for\n%s", err, file)
		}
		text := strings.Join(a.Lines(), "\n") + "\n"
		again, err := readSection(text)
		if err != nil {
			t.Errorf("%v, for\n%s", err, text)
			continue
		}
		for n, i := range a.Issuers {
			if a.SecretFiles[n] == "" && i.Introspection != nil {
				i.Introspection.ClientSecret = ""
			}
		}
		if a.Line, again.Line = 0, 0; len(a.Implies) == 0 {
			a.Implies = nil
		}
		if diff := cmp.Diff(a, again); diff != "" {
			t.Errorf("(-read +written):\n%s\nwritten as\n%s", diff, text)
		}
		form, err := json.Marshal(&a)
		if err != nil || strings.Contains(text+string(form), "hunter2") || strings.Contains(text+string(form), "s3cret") {
			t.Errorf("%v, or a secret is written:\n%s\n%s", err, text, form)
		}
	}
}
