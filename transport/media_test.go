package transport

import "testing"

// TestAccepts checks that the most specific range that names a type counts, wherever it
// stands, and that of two equally specific ranges any that admits the type counts.
func TestAccepts(t *testing.T) {
	t.Parallel()
	type verdict struct{ json, sse bool }
	for name, row := range map[string]struct {
		values []string
		want   verdict
	}{
		"no header":                    {nil, verdict{}},
		"an empty one":                 {[]string{""}, verdict{}},
		"both":                         {[]string{"application/json, text/event-stream"}, verdict{true, true}},
		"in two lines":                 {[]string{"text/event-stream", "application/json"}, verdict{true, true}},
		"anything":                     {[]string{"*/*"}, verdict{true, true}},
		"nothing":                      {[]string{"*/*;q=0"}, verdict{}},
		"anything but JSON":            {[]string{"application/json;q=0, */*"}, verdict{false, true}},
		"the other way round":          {[]string{"*/*, application/json;q=0"}, verdict{false, true}},
		"but a family":                 {[]string{"text/*;q=0, */*;q=0.5"}, verdict{true, false}},
		"one of a family":              {[]string{"text/event-stream, text/*;q=0, application/*"}, verdict{true, true}},
		"a family but one":             {[]string{"application/json; q=0.0, application/*, text/*"}, verdict{false, true}},
		"twice, of which one admits":   {[]string{"application/json;q=0, application/json"}, verdict{true, false}},
		"twice, the other way round":   {[]string{"application/json", "application/json;q=0"}, verdict{true, false}},
		"a comma within a parameter":   {[]string{`application/json;a=", */*", text/html`}, verdict{true, false}},
		"a quality of another's":       {[]string{`application/json;a="q=0", text/event-stream;q=0.001`}, verdict{true, true}},
		"types that only begin alike":  {[]string{"application/json5, text/event-streams"}, verdict{}},
		"what is no range":             {[]string{"*, application, /json, */json"}, verdict{}},
		"a quality that is no number":  {[]string{"application/json;q=, text/event-stream;q=x"}, verdict{true, true}},
		"a quality in capital letters": {[]string{"APPLICATION/JSON;Q=0, Text/Event-Stream"}, verdict{false, true}},
	} {
		var got verdict
		if got.json, got.sse = acceptedMedia(row.values); got != row.want {
			t.Errorf("%s: %q: got %v, want %v", name, row.values, got, row.want)
		}
	}
}
