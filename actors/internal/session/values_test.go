package session

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestSetValue(t *testing.T) {
	room := Room{Values: 2, Bytes: 40}
	r := New(time.Now(), life)
	for _, step := range []struct {
		key, value string // "" removes
		changed    bool
		err        error
		want       string // all values
	}{
		{"a", `1`, true, nil, `{"a":1}`},
		{"a", `1`, false, nil, `{"a":1}`},
		{"a", `2`, true, nil, `{"a":2}`},
		{"b", `"x"`, true, nil, `{"a":2,"b":"x"}`},
		{"c", `1`, false, ErrFull, `{"a":2,"b":"x"}`},
		{"a", `"` + strings.Repeat("x", 40) + `"`, false, ErrFull, `{"a":2,"b":"x"}`},
		{"a", ``, true, nil, `{"b":"x"}`},
		{"a", ``, false, nil, `{"b":"x"}`},
		{"\x01\x02\x03\x04\x05", `1`, false, ErrFull, `{"b":"x"}`}, // longer as JSON
	} {
		before, was := r, len(r.Values)
		var value json.RawMessage
		if step.value != "" {
			value = json.RawMessage(step.value)
		}
		changed, err := r.SetValue(step.key, value, room)
		if changed != step.changed || !errors.Is(err, step.err) {
			t.Errorf("%q=%s: changed %t, error %v", step.key, step.value, changed, err)
		}
		if got, _ := json.Marshal(r.Values); string(got) != step.want {
			t.Errorf("%q=%s: got %s, want %s", step.key, step.value, got, step.want)
		}
		if len(before.Values) != was {
			t.Errorf("%q=%s: a copy of the record has changed", step.key, step.value)
		}
	}
}
