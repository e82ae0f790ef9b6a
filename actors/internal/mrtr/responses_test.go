package mrtr

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
)

func TestResponses(t *testing.T) {
	t.Parallel()
	many := func(n int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(`"k%d":{}`, i)
		}
		return "{" + strings.Join(all, ",") + "}"
	}
	most := limits.Responses.Value()
	for _, tt := range []struct {
		name, responses string
		asked           []string
		want            []string // its keys
		err             error
	}{
		{"none", "", nil, nil, nil},
		{"those that were asked for", `{"a":1,"b":2,"c":3}`, []string{"c", "a"}, []string{"a", "c"}, nil},
		{"all, if it is not known what was asked for", `{"a":1,"b":2}`, nil, []string{"a", "b"}, nil},
		{"nothing was asked for", `{"a":1,"b":2}`, []string{}, nil, nil},
		{"an escaped key", `{"\u0061":1}`, []string{"a"}, []string{"a"}, nil},
		{"an array", `[]`, nil, nil, ErrResponses},
		{"as many as may be", many(most), []string{"k1"}, []string{"k1"}, nil},
		{"one more", many(most + 1), []string{"k1"}, nil, ErrManyResponses},
	} {
		m := codec.Message{}
		if tt.responses != "" {
			m.Responses = []byte(tt.responses)
		}
		given, err := ParseResponses(&m, tt.asked)
		if got := slices.Sorted(maps.Keys(given)); !errors.Is(err, tt.err) || !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v and %v, want %v and %v", tt.name, got, err, tt.want, tt.err)
		}
	}
	m := codec.Message{Responses: []byte(`{"a":1,"a":2}`)}
	given, _ := ParseResponses(&m, nil)
	m.Responses[9+2] = '9'
	if string(given["a"]) != "2" {
		t.Errorf("of two members: %s, want a copy of the last", given["a"])
	}
}
