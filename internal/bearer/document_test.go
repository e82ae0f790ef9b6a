package bearer

import (
	"os"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/auth"
)

// told is what a reason is answered with: status, and error.
var told = map[auth.Reason][2]string{
	auth.ReasonMissing:     {"401", ""},
	auth.ReasonRequest:     {"400", "`invalid_request`"},
	auth.ReasonMalformed:   {"401", "`invalid_token`"},
	auth.ReasonEncrypted:   {"401", "`invalid_token`"},
	auth.ReasonAlgorithm:   {"401", "`invalid_token`"},
	auth.ReasonHeader:      {"401", "`invalid_token`"},
	auth.ReasonType:        {"401", "`invalid_token`"},
	auth.ReasonIDToken:     {"401", "`invalid_token`"},
	auth.ReasonIssuer:      {"401", "`invalid_token`"},
	auth.ReasonKey:         {"401, 503", "`invalid_token`"},
	auth.ReasonSignature:   {"401", "`invalid_token`"},
	auth.ReasonExpired:     {"401", "`invalid_token`"},
	auth.ReasonEarly:       {"401", "`invalid_token`"},
	auth.ReasonAudience:    {"401", "`invalid_token`"},
	auth.ReasonScopeClaim:  {"401", "`invalid_token`"},
	auth.ReasonBound:       {"401", "`invalid_token`"},
	auth.ReasonSubject:     {"401", "`invalid_token`"},
	auth.ReasonInactive:    {"401", "`invalid_token`"},
	auth.ReasonKeyUnknown:  {"401", "`invalid_token`"},
	auth.ReasonRevoked:     {"401", "`invalid_token`"},
	auth.ReasonScope:       {"403", "`insufficient_scope`"},
	auth.ReasonUnavailable: {"503", ""},
}

// TestGuide has each reason in the table of docs/auth.md: what is checked, the answer that comes, and what to do. A 401 there has
// the error invalid_token, unless there was no token.
func TestGuide(t *testing.T) {
	t.Parallel()
	const guide = "../../docs/auth.md"
	data, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	// cells returns those of a column in the rows below a heading.
	cells := func(heading string, column int) (all []string) {
		_, after, ok := strings.Cut(string(data), "\n"+heading+"\n")
		if !ok {
			t.Fatalf("%s has no heading %s", guide, heading)
		}
		after, _, _ = strings.Cut(after, "\n##")
		for line := range strings.Lines(after) {
			if row := strings.Split(strings.Trim(line, "| \n"), " | "); strings.HasPrefix(line, "| ") && column < len(row) {
				all = append(all, row[column])
			}
		}
		return all
	}
	const checked = "## What is checked"
	answers, reasons, advice := cells(checked, 1), cells(checked, 2), cells(checked, 3)
	if len(advice) != len(answers) {
		t.Errorf("%s does not say to all what to do", guide)
	}
	for _, reason := range auth.Reasons() {
		if _, ok := told[reason]; !ok {
			t.Errorf("%s has no answer", reason)
		}
		name, came := "`"+string(reason)+"`", ""
		for i, cell := range reasons {
			if strings.Contains(cell, name) {
				came += answers[i] + "; "
			}
		}
		parts := strings.Split(told[reason][0], ", ")
		if told[reason][1] != "`invalid_token`" {
			parts = append(parts, told[reason][1])
		}
		for _, part := range parts {
			if came == "" || !strings.Contains(came, part) {
				t.Errorf("%s: a check with the reason %s is answered %q, want %s", guide, name, came, part)
			}
		}
	}
}
