package kit

import (
	"os"
	"strings"
	"testing"
)

// Tables compares the tables of a document with those of the code: below each
// second-level heading that tables has, the first table. With update it writes the
// document if that differs; without, it fails the test and names command, which writes
// it.
func Tables(t *testing.T, document string, tables map[string]string, update bool, command string) {
	t.Helper()
	old, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	text := string(old)
	for heading, table := range tables {
		text = withTable(t, document, text, heading, table)
	}
	if text == string(old) {
		return
	}
	if !update {
		t.Fatalf("%s differs from the tables of the code; %s writes it", document, command)
	}
	if err := os.WriteFile(document, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// withTable replaces the first table below a heading.
func withTable(t *testing.T, document, text, heading, table string) string {
	t.Helper()
	_, after, ok := strings.Cut(text, "\n## "+heading+"\n")
	begin := strings.Index("\n"+after, "\n| ") // the table may follow at once
	if !ok || begin < 0 {
		t.Fatalf("%s has no table below %s", document, heading)
	}
	begin += len(text) - len(after)
	end := begin
	for strings.HasPrefix(text[end:], "|") {
		end += strings.IndexByte(text[end:], '\n') + 1
	}
	return text[:begin] + table + text[end:]
}
