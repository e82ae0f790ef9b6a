package limits

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestOften writes as many records of a text in a minute as it may, and counts the others.
func TestOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		l := NewLog(slog.New(slog.NewTextHandler(&b, nil)))
		for range 10 {
			l.Often(3, slog.LevelInfo, "often")
			l.Rarely(slog.LevelInfo, "rarely")
		}
		time.Sleep(time.Minute)
		l.Often(3, slog.LevelInfo, "often")
		l.Rarely(slog.LevelInfo, "rarely")
		for text, want := range map[string]int{"msg=often times=1": 3, "msg=often times=8": 1, "msg=rarely times=1\n": 1, "msg=rarely times=10": 1, "msg=": 6} {
			if got := strings.Count(b.String(), text); got != want {
				t.Errorf("%q is there %d times, want %d:\n%s", text, got, want, b.String())
			}
		}
	})
}
