package telemetry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
)

// NewMaskingHandler returns a handler that passes records on to next with each id of a session or a stream
// replaced by its [Hash]: whoever has the id of an anonymous session can use that session. The
// store's own log, errors and the names of actors hold ids, too, so every text is looked at. A value with a method
// NoSecret stays as that returns it.
func NewMaskingHandler(next slog.Handler) slog.Handler { return maskingHandler{next} }

type maskingHandler struct{ next slog.Handler }

var _ slog.Handler = maskingHandler{}

func (d maskingHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return d.next.Enabled(ctx, l)
}
func (d maskingHandler) WithGroup(name string) slog.Handler {
	return maskingHandler{d.next.WithGroup(name)}
}

func (d maskingHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return maskingHandler{d.next.WithAttrs(maskAttrs(attrs))}
}

func (d maskingHandler) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, r.Level, strings.ToValidUTF8(MaskIDs(r.Message), "\uFFFD"), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(maskAttr(a))
		return true
	})
	return d.next.Handle(ctx, out)
}

func maskAttrs(attrs []slog.Attr) []slog.Attr {
	out := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		out[i] = maskAttr(a)
	}
	return out
}

func maskAttr(a slog.Attr) slog.Attr {
	switch v := a.Value.Resolve(); v.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(strings.ToValidUTF8(MaskIDs(v.String()), "\uFFFD")) // an exporter refuses all that goes with a text that is none
	case slog.KindGroup:
		a.Value = slog.GroupValue(maskAttrs(v.Group())...)
	case slog.KindAny:
		if open, ok := v.Any().(interface{ NoSecret() string }); ok {
			a.Value = slog.StringValue(strings.ToValidUTF8(open.NoSecret(), "\uFFFD"))
			break
		}
		a.Value = v
		if text := fmt.Sprint(v.Any()); MaskIDs(text) != text { // also where it lies in a value of another type
			a.Value = slog.StringValue(MaskIDs(text))
		}
	default:
		a.Value = v
	}
	return a
}

// idLength is the number of characters of the id of a session or a stream. A session's client knows
// it with a tag behind it, which the hash leaves out.
const idLength = 26

// MaskIDs returns text with each id in it replaced by its [Hash]. An id is a word of idLength
// characters and more that begins with as many of base32, in lower case.
func MaskIDs(text string) string {
	var b strings.Builder
	from := 0 // what b does not have yet
	for i := 0; i < len(text); i++ {
		end := i
		for end < len(text) && inWord(text[end]) {
			end++
		}
		if end-i >= idLength && isBase32(text[i:i+idLength]) {
			b.WriteString(text[from:i])
			b.WriteString(Hash(text[i:end]))
			from = end
		}
		i = end
	}
	if from == 0 {
		return text
	}
	return b.String() + text[from:]
}

// Hash stands for the id of a session or a stream where others may read it: # and the first 12
// hexadecimal digits of the SHA-256 of its first 26 characters. "" stays as it is.
func Hash(id string) string {
	if id == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(id[:min(len(id), idLength)]))
	return "#" + hex.EncodeToString(sum[:6])
}

func inWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

func isBase32(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '2' || c > '7') {
			return false
		}
	}
	return true
}
