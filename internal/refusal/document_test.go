package refusal

import (
	"encoding/json"
	"flag"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
)

const document = "../../docs/errors.md"

var update = flag.Bool("update", false, "write the tables of "+document)

// TestDocument compares the tables of the document with those of the code.
func TestDocument(t *testing.T) {
	t.Parallel()
	tables := map[string]string{"Codes": codes(), "Faults": rows(), "Limits": refusals()}
	kit.Tables(t, document, tables, *update, "go test ./internal/refusal -update")
}

func codes() string {
	var b strings.Builder
	b.WriteString("| code | name | text, if there is none more exact | status | what it means |\n|---|---|---|---|---|\n")
	for _, e := range protocol.ErrorInfos() {
		status := strconv.Itoa(e.HTTPStatus)
		if e.StatelessStatus != e.HTTPStatus {
			status += fmt.Sprintf(", since 2026-07-28 %d", e.StatelessStatus)
		}
		if e.Retryable {
			status += ", come back"
		}
		fmt.Fprintf(&b, "| %d | `mcp.Code%s` | %s | %s | %s |\n", e.Code, e.Name, mcp.NewError(e.Code, "").Message, status, e.Doc)
	}
	return b.String()
}

func rows() string {
	var b strings.Builder
	b.WriteString("| text | code | status | when |\n|---|---|---|---|\n")
	for _, f := range table {
		status := strconv.Itoa(f.Status)
		if f.HangUp {
			status += ", closed"
		}
		if f.After > 0 {
			status += ", come back"
		}
		fmt.Fprintf(&b, "| %s | %d | %s | %s |\n", strings.TrimSuffix(f.Text, ", "), f.Code, status, f.When)
	}
	return b.String()
}

func refusals() string {
	var b strings.Builder
	b.WriteString("| text | code | status | limit |\n|---|---|---|---|\n")
	for _, s := range limits.Sections() {
		for r := range limits.All(s) {
			no := Of(r)
			if no.Text == "" {
				continue
			}
			name := r.Name
			if r.Option != "" {
				name = "`" + r.Option + "`"
			}
			fmt.Fprintf(&b, "| %s | %d | %d | %s |\n", no.Text, no.Code, no.Status, name)
		}
	}
	return b.String()
}

// TestRows checks that each fault differs from every other, and has a code of the protocol.
func TestRows(t *testing.T) {
	t.Parallel()
	texts := map[string]bool{}
	for _, f := range table {
		if _, ok := protocol.LookupError(f.Code); !ok || f.Text == "" || f.When == "" || f.Status < 200 || f.Status > 599 {
			t.Errorf("%+v is not complete", f)
		}
		if texts[strings.ToLower(f.Text)] {
			t.Errorf("two faults are called %q", f.Text)
		}
		texts[strings.ToLower(f.Text)] = true
		if f.After > 0 && f.Status != 503 && f.Status != 429 {
			t.Errorf("%q may be sent again, with status %d", f.Text, f.Status)
		}
	}
}

// TestMetaFaults compares the rows for an incomplete _meta with the package that reads _meta where there are
// no headers.
func TestMetaFaults(t *testing.T) {
	t.Parallel()
	version := `"` + mcp.MetaProtocolVersion + `":"2026-07-28"`
	for meta, want := range map[string]*Refusal{
		`{}`:                NoRevision,
		`{` + version + `}`: NoCapabilities,
		`{` + version + `,"` + mcp.MetaClientCapabilities + `":{},"` + mcp.MetaClientInfo + `":1}`: ClientInfo,
	} {
		_, err := mcp.ReadRequestMeta([]byte(meta))
		if err == nil || err.Code != want.Code || err.Message != want.Text {
			t.Errorf("%s: %v, want %s", meta, err, want.Text)
		}
	}
}

type told Refusal

func (r *told) Reject(no *Refusal) { *r = told(*no) }

func letter(t *testing.T, r told) string {
	b, err := json.Marshal(Refusal(r))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestTell(t *testing.T) {
	t.Parallel()
	var got told
	Unavailable.Tell(&got, []byte("1"))
	if want := (told{Status: 503, Code: mcp.CodeInternalError, Label: "unavailable", Text: "temporarily unavailable: try again shortly", ID: []byte("1"), Data: []byte(`{"retryAfterMs":1000}`), After: time.Second, When: Unavailable.When}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if want := `{"Status":503,"Code":-32603,"Message":"temporarily unavailable: try again shortly","Data":"eyJyZXRyeUFmdGVyTXMiOjEwMDB9","ID":"MQ==","After":1000000000}`; letter(t, got) != want {
		t.Errorf("another node gets %s, want %s", letter(t, got), want)
	}
	SessionRevision.TellMore(&got, "2025-11-25", nil)
	if want := (told{Status: 400, Code: mcp.CodeInvalidRequest, Text: "MCP-Protocol-Version is not the session's, 2025-11-25", When: SessionRevision.When}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if e := Initialized.MCP(); e.Code != mcp.CodeInvalidRequest || e.Message != "the session is initialized already" {
		t.Errorf("as an error: %v", e)
	}
}
