package protocol_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit/when"
)

// coders are the two ways a value travels through JSON here.
var coders = map[string]struct {
	marshal   func(any) ([]byte, error)
	unmarshal func([]byte, any) error
}{
	"codec": {codec.Marshal, codec.Unmarshal},
	"std":   {stdMarshal, json.Unmarshal},
}

func stdMarshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSpace(buf.Bytes()), err
}

// byteMembers must keep their bytes, except white space. So must the members of _meta, each for itself.
var byteMembers = []string{"inputSchema", "outputSchema", "requestedSchema", "arguments", "structuredContent",
	"id", "requestId", "progressToken", "cursor", "nextCursor", "input", "metadata", "data", "experimental"}

// falseMembers are booleans that default to false and may be absent then.
var falseMembers = []string{"isError", "listChanged", "subscribe", "required",
	"toolsListChanged", "promptsListChanged", "resourcesListChanged", "readOnlyHint", "idempotentHint"}

// roundTrip decodes and encodes a sample of a definition and returns the output.
func (o official) roundTrip(t *testing.T, coder, def string, sample []byte) []byte {
	t.Helper()
	typ := o.types[def]
	if typ == typeOf[union]() || typ == typeOf[inPlace]() {
		return nil
	}
	v := reflect.New(typ).Interface()
	if err := coders[coder].unmarshal(sample, v); err != nil {
		t.Errorf("%s: decode %s: %v", def, sample, err)
		return nil
	}
	out, err := coders[coder].marshal(v)
	if err != nil {
		t.Errorf("%s: encode %s: %v", def, sample, err)
		return nil
	}
	if problem := differ(def, sample, out); problem != "" {
		t.Errorf("%s: %s\n got %s\nwant %s", def, problem, out, sample)
	}
	return out
}

// differ compares two JSON texts: the same value everywhere, the same bytes in
// byteMembers.
func differ(path string, want, got []byte) string {
	want, got = bytes.TrimSpace(want), bytes.TrimSpace(got)
	switch {
	case want[0] == '{' && got[0] == '{':
		var w, g map[string]json.RawMessage
		if json.Unmarshal(want, &w) != nil || json.Unmarshal(got, &g) != nil {
			return path + ": not JSON"
		}
		for _, key := range slices.Sorted(maps.Keys(w)) {
			gv, ok := g[key]
			if !ok {
				if string(w[key]) == "false" && slices.Contains(falseMembers, key) || key == "_meta" && compact(w[key]) == "{}" {
					continue
				}
				return fmt.Sprintf("%s: %q is missing", path, key)
			}
			if problem := differ(path+"."+key, w[key], gv); problem != "" {
				return problem
			}
			raw := (slices.Contains(byteMembers, key) || strings.HasSuffix(path, "._meta")) && !(key == "arguments" && typedArguments(path, w[key]))
			if raw && !isStringValue(w[key]) && compact(w[key]) != compact(gv) {
				return fmt.Sprintf("%s: the bytes of %q changed", path, key)
			}
		}
		for key := range g {
			if _, ok := w[key]; !ok {
				return fmt.Sprintf("%s: %q is new", path, key)
			}
		}
		return ""
	case want[0] == '[' && got[0] == '[':
		var w, g []json.RawMessage
		if json.Unmarshal(want, &w) != nil || json.Unmarshal(got, &g) != nil || len(w) != len(g) {
			return path + ": not the same number of elements"
		}
		for i := range w {
			if problem := differ(fmt.Sprintf("%s[%d]", path, i), w[i], g[i]); problem != "" {
				return problem
			}
		}
		return ""
	}
	if !equalScalars(want, got) {
		return fmt.Sprintf("%s: got %s, want %s", path, got, want)
	}
	return ""
}

// typedArguments reports whether the arguments at a path are decoded: those of prompts
// and of completion contexts are strings by definition, a list describes a prompt's.
func typedArguments(path string, value []byte) bool {
	return strings.HasPrefix(path, "GetPrompt") || strings.HasSuffix(path, ".context") || value[0] == '['
}

// isStringValue excuses strings that the Go type keeps decoded, such as cursors;
// TestTokensKeepTheirBytes compares ids and tokens that are strings.
func isStringValue(raw []byte) bool { return raw[0] == '"' }

func compact(raw []byte) string {
	var buf bytes.Buffer
	if err := json.Compact(&buf, raw); err != nil {
		return string(raw)
	}
	return buf.String()
}

func equalScalars(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y string
	if a[0] == '"' && b[0] == '"' {
		return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && x == y
	}
	n, ok1 := new(big.Rat).SetString(string(a))
	m, ok2 := new(big.Rat).SetString(string(b))
	return ok1 && ok2 && n.Cmp(m) == 0
}

func readSamples(t *testing.T) map[string][]json.RawMessage {
	t.Helper()
	data, err := os.ReadFile("testdata/2025-11-25.json")
	if err != nil {
		t.Fatal(err)
	}
	var samples map[string][]json.RawMessage
	if err := json.Unmarshal(data, &samples); err != nil {
		t.Fatal(err)
	}
	return samples
}

func TestSamplesRoundTrip(t *testing.T) {
	when.Unraced(t, "one goroutine does all of it")
	t.Parallel()
	for coder := range coders {
		for def, samples := range readSamples(t) {
			for _, sample := range samples {
				legacyOfficial.roundTrip(t, coder, def, sample)
			}
		}
	}
}

func TestSamplesCoverAndFitTheSchema(t *testing.T) {
	t.Parallel()
	defs, _ := loadSchema(t, "2025-11-25")
	samples, v := readSamples(t), officialValidator(t, "2025-11-25")
	for def := range defs {
		if len(samples[def]) == 0 {
			t.Errorf("no sample of %s", def)
		}
		for _, sample := range samples[def] {
			if err := v.check(def, sample); err != nil {
				t.Errorf("the sample itself is not legal: %s %s: %v", def, sample, err)
				continue
			}
			for coder := range coders {
				if out := legacyOfficial.roundTrip(t, coder, def, sample); out != nil {
					if err := v.check(def, out); err != nil {
						t.Errorf("%s: encoded by %s as %s, which is not legal: %v", def, coder, out, err)
					}
				}
			}
		}
	}
}

// TestOfficialExamplesRoundTrip takes the examples of 2026-07-28 as they are, and once
// more as far as they are legal in 2025-11-25, without the members added in between. It
// checks the result in a response against its own definition, too.
func TestOfficialExamplesRoundTrip(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(specDir(t), "2026-07-28", "examples", "*", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, o := range officials {
		defs, _ := loadSchema(t, o.revision.String())
		v, used := officialValidator(t, o.revision.String()), 0
		check := func(file, def string, data []byte) {
			used++
			legal := v.check(def, data) == nil // one is not: it lacks a member that the schema requires now
			for coder := range coders {
				if out := o.roundTrip(t, coder, def, data); out != nil && legal {
					if err := v.check(def, out); err != nil {
						t.Errorf("%s: encoded by %s as %s, which is not legal: %v", file, coder, out, err)
					}
				}
			}
		}
		for _, file := range files {
			def := filepath.Base(filepath.Dir(file))
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if o.revision.Stateless() && def == "ListRootsRequest" {
				data = without(data, "id") // a member left from when it was a message
			}
			if !o.revision.Stateless() {
				data = without(data, "resultType", "ttlMs", "cacheScope", "inputResponses", "requestState")
				if defs[def] == nil || v.check(def, data) != nil {
					continue
				}
			}
			check(file, def, data)
			if of, ok := strings.CutSuffix(def, "Response"); ok && defs[of] != nil {
				var response struct{ Result json.RawMessage }
				if err := json.Unmarshal(data, &response); err != nil {
					t.Fatal(err)
				}
				check(file, of, response.Result)
			}
		}
		if want := map[mcp.Revision]int{r11: 60, r28: len(files) + 9}[o.revision]; used < want {
			t.Errorf("%v: got %d examples that apply, want at least %d", o.revision, used, want)
		}
	}
}

// without removes members from the objects at the top and one level below.
func without(data []byte, keys ...string) []byte {
	var object map[string]json.RawMessage
	if json.Unmarshal(data, &object) != nil {
		return data
	}
	for _, key := range keys {
		delete(object, key)
	}
	for key, value := range object {
		if strings.HasPrefix(strings.TrimSpace(string(value)), "{") && (key == "result" || key == "params") {
			object[key] = without(value, keys...)
		}
	}
	out, _ := stdMarshal(object)
	return out
}

func TestTokensKeepTheirBytes(t *testing.T) {
	t.Parallel()
	for _, token := range []string{`0`, `-0`, `1`, `"1"`, `""`, `"\u00e9"`, `"é"`, `"\/"`, `9007199254740993`,
		`-9223372036854775809`, `123456789012345678901234567890`, `1.0`, `1e3`} {
		for name, coder := range coders {
			for def, text := range map[string]string{
				"CancelledNotificationParams": `{"requestId":%s}`,
				"ProgressNotificationParams":  `{"progressToken":%s,"progress":0}`,
				"CallToolRequestParams":       `{"name":"x","_meta":{"progressToken":%s}}`,
			} {
				in := fmt.Sprintf(text, token)
				v := reflect.New(goTypes[def]).Interface()
				if err := coder.unmarshal([]byte(in), v); err != nil {
					t.Errorf("%s: decode %s: %v", name, in, err)
					continue
				}
				if out, err := coder.marshal(v); err != nil || string(out) != in {
					t.Errorf("%s: got %s, %v, want %s", name, out, err, in)
				}
			}
		}
	}
	for _, token := range []string{`null`, `true`, `{}`, `[]`, `[1]`} {
		for name, coder := range coders {
			var params mcp.CancelledParams
			if err := coder.unmarshal([]byte(`{"requestId":`+token+`}`), &params); err == nil {
				t.Errorf("%s: got the id %s, want it refused", name, token)
			}
		}
	}
}

// TestSkillResourcesKeepTheirForm reads and writes the files of a skill: a list, which may be empty, or the word for content
// that has no digests.
func TestSkillResourcesKeepTheirForm(t *testing.T) {
	t.Parallel()
	for coder, c := range coders {
		for _, text := range []string{
			`{"uri":"skill://a/SKILL.md","frontmatter":{"name":"a"},"resources":"dynamic"}`,
			`{"uri":"skill://a/SKILL.md","frontmatter":{"name":"a"},"resources":[]}`,
			`{"uri":"skill://a/SKILL.md","frontmatter":{"name":"a","x":[1.0]},"resources":[{"uri":"skill://a/SKILL.md","digest":"sha256:0","size":0}]}`,
		} {
			var s mcp.Skill
			if err := c.unmarshal([]byte(text), &s); err != nil {
				t.Errorf("%s: %v", coder, err)
			}
			if got, err := c.marshal(s); err != nil || string(got) != text {
				t.Errorf("%s: got %s, %v, want %s", coder, got, err, text)
			}
		}
		for _, bad := range []string{`null`, `"static"`, `{}`, `7`} {
			var s mcp.Skill
			if err := c.unmarshal([]byte(`{"uri":"skill://a/SKILL.md","frontmatter":{},"resources":`+bad+`}`), &s); err == nil {
				t.Errorf("%s: takes %s", coder, bad)
			}
		}
	}
}
