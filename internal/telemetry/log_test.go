package telemetry

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// TestDiscreet logs an id in every place that a record has.
func TestDiscreet(t *testing.T) {
	t.Parallel()
	const id, tagged = "abcdefghijklmnopqrstuvwx23", "abcdefghijklmnopqrstuvwx234567abcdefghi" // both of one session
	const hash = "#836b91aa8177"
	var b strings.Builder
	log := slog.New(NewMaskingHandler(slog.NewTextHandler(&b, nil))).With("with", "ev.t.s."+id).WithGroup("g")
	log.Info("stream "+id+".17.0 and "+tagged, "id", id, "error", errors.New("no "+tagged), slog.Group("in", "deep", `"`+id+`"`),
		"list", []string{"x", id}, "valuer", valuer(id), "n", 7, "text", "as it was", "open", open(id+"\xff"))
	got := b.String()
	got, shown := strings.CutSuffix(got, " g.open=\""+id+"\uFFFD\"\n")
	if !shown {
		t.Errorf("what is no secret is not shown: %s", got)
	}
	if strings.Contains(got, id) || strings.Contains(got, "234567abc") {
		t.Errorf("an id is shown: %s", got)
	}
	for _, want := range []string{
		`msg="stream ` + hash + `.17.0 and ` + hash + `"`, "with=ev.t.s." + hash, "g.id=" + hash, `g.error="no ` + hash + `"`,
		`g.in.deep="\"` + hash + `\""`, `g.list="[x ` + hash + `]"`, "g.valuer=" + hash, "g.n=7", `g.text="as it was"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing: %s", want, got)
		}
	}
}

type open string

func (o open) NoSecret() string { return string(o) }

type valuer string

func (v valuer) LogValue() slog.Value { return slog.StringValue(string(v)) }

// TestMasked leaves words that are no ids, at any place of a text.
func TestMasked(t *testing.T) {
	t.Parallel()
	const id = "abcdefghijklmnopqrstuvwx23"
	for text, want := range map[string]string{
		"": "", "x": "x", id: Hash(id), id + id: Hash(id), " " + id + " ": " " + Hash(id) + " ", id + "." + id: Hash(id) + "." + Hash(id),
		id[1:]: id[1:], strings.ToUpper(id): strings.ToUpper(id), "1" + id: "1" + id, "a1" + id[2:]: "a1" + id[2:],
		"the quick brown fox jumps over": "the quick brown fox jumps over",
	} {
		if got := MaskIDs(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	if Hash("") != "" {
		t.Error("no id has a hash")
	}
}
