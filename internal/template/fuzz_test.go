package template_test

import (
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/internal/template"
)

// separable are templates whose expansion says what each value was, if no value is empty.
var separable = []string{
	"a://{v}", "a://x/{v}/{w}", "a://{v,w}", "a://x{/v,w}", "a://x{/v}{;w}", "a://x{;v,w}", "a://x{;w,v}{#l}",
	"a://{v}{?w}", "a://{v}{?w,l*}", "a://x?fixed=1{&v,l*,w}", "a://x{?v}{&w}{#l}", "a://café/{v}{/l*}", "a://x{/l*}{?v,w}",
	"https://Host/{v}/%41/{w}", "https://{v}@x.Host/{w}", "a://{v:5}/{v}", "a://x{?w}{#v}", "a://{v}{/w,l*}",
}

// operators are those of RFC 6570, appendix A.
var operators = map[string]struct {
	first, separator string
	named            bool
	ifEmpty          string
	reserved         bool
}{
	"": {separator: ","}, "+": {separator: ",", reserved: true}, "#": {first: "#", separator: ",", reserved: true},
	".": {first: ".", separator: "."}, "/": {first: "/", separator: "/"}, ";": {first: ";", separator: ";", named: true},
	"?": {first: "?", separator: "&", named: true, ifEmpty: "="}, "&": {first: "&", separator: "&", named: true, ifEmpty: "="},
}

// expand expands a valid template as RFC 6570, section 3, says. A value is a list of one or more strings.
func expand(text string, values map[string][]string) string {
	var out strings.Builder
	for text != "" {
		literal, rest, _ := strings.Cut(text, "{")
		out.WriteString(encode(literal, true))
		list, after, _ := strings.Cut(rest, "}")
		text = after
		if list == "" {
			continue
		}
		op := ""
		if strings.Contains("+#./;?&", list[:1]) {
			op, list = list[:1], list[1:]
		}
		o, lead := operators[op], operators[op].first
		for spec := range strings.SplitSeq(list, ",") {
			name, explode := strings.CutSuffix(spec, "*")
			name, most, _ := strings.Cut(name, ":")
			value, ok := values[name]
			if !ok {
				continue
			}
			if n, err := strconv.Atoi(most); err == nil {
				if runes := []rune(value[0]); len(runes) > n {
					value = []string{string(runes[:n])}
				}
			}
			between := ","
			if explode {
				between = o.separator
			}
			for i, element := range value {
				if i == 0 {
					out.WriteString(lead)
				} else {
					out.WriteString(between)
				}
				if o.named && (i == 0 || explode) {
					out.WriteString(name)
					if element == "" {
						out.WriteString(o.ifEmpty)
					} else {
						out.WriteString("=")
					}
				}
				out.WriteString(encode(element, o.reserved))
			}
			lead = o.separator
		}
	}
	return out.String()
}

// encode escapes what a URI must not have and, without keep, what is reserved in it.
func encode(s string, keep bool) string {
	var out strings.Builder
	for i := range len(s) {
		c := s[i : i+1]
		switch {
		case keep && c == "%" && i+2 < len(s):
			if _, err := url.PathUnescape(s[i : i+3]); err == nil {
				out.WriteString(c)
				continue
			}
			out.WriteString("%25")
		case strings.Contains("-._~", c), c >= "0" && c <= "9", c >= "A" && c <= "Z", c >= "a" && c <= "z", keep && strings.Contains(":/?#[]@!$&'()*+,;=", c):
			out.WriteString(c)
		default:
			out.WriteString("%" + strings.ToUpper(strconv.FormatUint(0x100+uint64(s[i]), 16)[1:]))
		}
	}
	return out.String()
}

func TestExpand(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{v}{+w}{#w}": "%C3%A4%2Fbc/d%25#c/d%25",
		"{/l}{/l*}":   "/x,y/x/y",
		"{?l*,e}{;e}": "?l=x&l=y&e=;e",
		"{.v:1,none}": ".%C3%A4",
	} {
		got := expand(text, map[string][]string{"v": {"ä/b"}, "w": {"c/d%"}, "l": {"x", "y"}, "e": {""}})
		if got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// FuzzExpand expands templates, by code of its own: an expansion matches its template, and gives the values back. Any other
// template is refused, or taken apart without a panic.
func FuzzExpand(f *testing.F) {
	for i := range separable {
		f.Add(uint8(i), "", "one", "2/ü%?&=#;,:", "x")
	}
	f.Add(uint8(255), "a://{+v}/{w}{?l*}", "a/b", "c", "d")
	f.Add(uint8(255), "a://{v}{.w}", "a.b", "c", "d")
	f.Add(uint8(255), "a://{v:3}{;w}{/l*}", "a.b", "c", "d")
	f.Fuzz(func(t *testing.T, which uint8, text, v, w, l string) {
		sure := int(which) < len(separable)
		if sure {
			text = separable[which]
		}
		tmpl, err := template.New(text)
		if err != nil {
			if sure {
				t.Fatalf("%s: %v", text, err)
			}
			return
		}
		v, w, l = strings.ToValidUTF8(v, "?"), strings.ToValidUTF8(w, "?"), strings.ToValidUTF8(l, "?")
		if strings.Contains(text, "{#") { // which leaves what looks like an escape as it is, so that nothing says whether it was one
			v, l = strings.ReplaceAll(v, "%", ""), strings.ReplaceAll(l, "%", "")
		}
		values := map[string][]string{"v": {v}, "w": {w}, "l": {l, l}}
		uri := expand(text, values)
		got, ok := tmpl.Match(template.NormalizeURI(uri))
		if !sure || v == "" || w == "" || l == "" {
			return
		}
		if !ok {
			t.Fatalf("%s does not match its expansion %s", text, uri)
		}
		for name, got := range got {
			if want := strings.Join(values[name], ","); got != want {
				t.Errorf("%s expands to %s: got %s %q back, want %q", text, uri, name, got, want)
			}
		}
		for name := range values {
			if _, back := got[name]; !back && strings.Contains(strings.TrimPrefix(text, "a://café"), name+"}") {
				t.Errorf("%s expands to %s: got no %s back", text, uri, name)
			}
		}
	})
}
