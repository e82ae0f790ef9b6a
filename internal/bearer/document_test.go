package bearer

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/test/kit"
)

const document = "../../docs/errors.md"

var update = flag.Bool("update", false, "write the table of "+document)

const (
	required = "an access token is required"
	invalid  = "the access token is not valid for this server"
)

// told is what a reason has in the document: status, error, text, and when.
var told = map[auth.Reason][4]string{
	auth.ReasonMissing:     {"401", "", required, "there are no credentials, or some of another scheme than Bearer"},
	auth.ReasonRequest:     {"400", "`invalid_request`", "the Authorization header must be one credential", "the header is no single credential"},
	auth.ReasonMalformed:   {"401", "`invalid_token`", invalid, "the token is over 16 KiB, or cannot be read"},
	auth.ReasonEncrypted:   {"401", "`invalid_token`", invalid, "the token is encrypted"},
	auth.ReasonAlgorithm:   {"401", "`invalid_token`", invalid, "the token is not signed with an algorithm of the list"},
	auth.ReasonHeader:      {"401", "`invalid_token`", invalid, "the token's header brings a key, or asks for an extension"},
	auth.ReasonType:        {"401", "`invalid_token`", invalid, "the token's `typ` is that of another kind of token"},
	auth.ReasonIDToken:     {"401", "`invalid_token`", invalid, "the token has a mark of an ID token, or of another token for a client"},
	auth.ReasonIssuer:      {"401", "`invalid_token`", invalid, "the token's `iss` is none of the configuration, byte by byte"},
	auth.ReasonKey:         {"401, 503", "`invalid_token`", invalid, "the issuer has no such key; 503 while it cannot be asked again"},
	auth.ReasonSignature:   {"401", "`invalid_token`", invalid, "the issuer's key has not signed the token"},
	auth.ReasonExpired:     {"401", "`invalid_token`", invalid, "the token has no `exp`, or has ended"},
	auth.ReasonEarly:       {"401", "`invalid_token`", invalid, "`nbf` or `iat` is ahead"},
	auth.ReasonAudience:    {"401", "`invalid_token`", invalid, "the token is for another server"},
	auth.ReasonScopeClaim:  {"401", "`invalid_token`", invalid, "a client id stands for the audience, and the token has no scope"},
	auth.ReasonBound:       {"401", "`invalid_token`", invalid, "the token is bound to a key that was not proven"},
	auth.ReasonSubject:     {"401", "`invalid_token`", invalid, "the token names neither a subject nor a client"},
	auth.ReasonInactive:    {"401", "`invalid_token`", invalid, "introspection says that the token is not active"},
	auth.ReasonKeyUnknown:  {"401", "`invalid_token`", invalid, "there is no such API key, or it was mistyped"},
	auth.ReasonRevoked:     {"401", "`invalid_token`", invalid, "the API key was revoked; so was the subject or the client after the token was issued, or for good"},
	auth.ReasonScope:       {"403", "`insufficient_scope`", "the access token lacks a scope", "what is asked for needs a scope that the token does not have; the challenge, and `data`, have those granted and needed together"},
	auth.ReasonUnavailable: {"503", "", "the access token cannot be verified at the moment: try again shortly", "the issuer cannot be reached, and nothing that it said counts any more"},
}

// TestDocument compares the table of the document with the reasons that there are.
func TestDocument(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("| reason | status | error | text | when |\n|---|---|---|---|---|\n")
	for _, reason := range auth.Reasons() {
		row, ok := told[reason]
		if !ok {
			t.Errorf("%s is not told of", reason)
		}
		cells := fmt.Sprintf("| `%s` | %s | %s | %s | %s |", Label(reason), row[0], row[1], row[2], row[3])
		b.WriteString(strings.ReplaceAll(cells, "|  |", "| |") + "\n")
	}
	kit.Tables(t, document, map[string]string{"Access tokens": b.String()}, *update, "go test ./internal/bearer -update")
}

// TestGuide has each reason in the tables of docs/auth.md: what is checked, with the answer that comes, and what to do.
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
	const checked = "### What is checked"
	answers, reasons, advice := cells(checked, 2), cells(checked, 3), strings.Join(cells("## My token is refused", 0), " ")
	for _, reason := range auth.Reasons() {
		name, came := "`"+string(reason)+"`", ""
		for i, cell := range reasons {
			if strings.Contains(cell, name) {
				came += answers[i] + "; "
			}
		}
		for _, part := range append(strings.Split(told[reason][0], ", "), told[reason][1]) {
			if came == "" || !strings.Contains(came, part) {
				t.Errorf("%s: a check with the reason %s is answered %q, want %s", guide, name, came, part)
			}
		}
		if !strings.Contains(advice, name) {
			t.Errorf("%s does not say what to do about %s", guide, name)
		}
	}
}
