package auth

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestReasons has every reason in the list, once.
func TestReasons(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("refusal.go")
	if err != nil {
		t.Fatal(err)
	}
	var declared []Reason
	for _, m := range regexp.MustCompile(`(?m)^\tReason\w+ +Reason = "(\w+)"`).FindAllSubmatch(text, -1) {
		declared = append(declared, Reason(m[1]))
	}
	if !slices.Equal(declared, Reasons()) || len(declared) < 20 {
		t.Errorf("declared are %v, listed are %v", declared, Reasons())
	}
	slices.Sort(declared)
	if len(slices.Compact(declared)) != len(Reasons()) {
		t.Error("two reasons are one")
	}
}

// TestRefusalInALog marks what nobody has verified, and shortens it.
func TestRefusalInALog(t *testing.T) {
	t.Parallel()
	o := object{"aud": []byte(`"` + strings.Repeat("é", 1000) + `"`), "iss": []byte(`"x\n"`)}
	r := refuseUnavailable(ReasonKey, 0, errDown, o.shown("aud", "iss", "nbf")...)
	var b bytes.Buffer
	slog.New(slog.NewTextHandler(&b, nil)).Info("refused", slog.Any("auth", r))
	line := b.String()
	for _, want := range []string{"auth.reason=key auth.status=503", "auth.unverified.aud=", `auth.unverified.iss="\"x\\n\""`, `auth.err="connection refused"`, "…"} {
		if !strings.Contains(line, want) {
			t.Errorf("%s lacks %s", line, want)
		}
	}
	if len(line) > 600 || !errors.Is(r, errDown) || !strings.Contains(r.Error(), "auth: 503: key, aud: ") || !strings.HasSuffix(r.Error(), ": connection refused") {
		t.Errorf("%d bytes: %s", len(line), r.Error())
	}
}
