package limits

import (
	"bytes"
	"fmt"
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
			l.LogUpTo(3, slog.LevelInfo, "often")
			l.LogRarely(slog.LevelInfo, "rarely")
		}
		time.Sleep(time.Minute)
		l.LogUpTo(3, slog.LevelInfo, "often")
		l.LogRarely(slog.LevelInfo, "rarely")
		for text, want := range map[string]int{"msg=often times=1": 3, "msg=often times=8": 1, "msg=rarely times=1\n": 1, "msg=rarely times=10": 1, "msg=": 6} {
			if got := strings.Count(b.String(), text); got != want {
				t.Errorf("%q is there %d times, want %d:\n%s", text, got, want, b.String())
			}
		}
	})
}

// TestRefused counts each limit that refuses twice. The log has it once, with its flag, unless it is usual to hit it.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, row := range table {
		if row.Counted == "" || row.By != Refusals && !row.Within {
			continue
		}
		var log strings.Builder
		l := NewLog(slog.New(slog.NewTextHandler(&log, nil)))
		l.Refused(row)
		l.Refused(row)
		want := 1
		if row.Usual {
			want = 0
		}
		if n := strings.Count(log.String(), fmt.Sprintf("limit=%q", row.Name)); n != want {
			t.Errorf("%s: %d records, want %d: %s", row.Counted, n, want, log.String())
		}
		if row.Option != "" && want > 0 && !strings.Contains(log.String(), "setting="+row.Setting()) {
			t.Errorf("%s: the flag is missing: %s", row.Counted, log.String())
		}
		l.ObserveRefusals(func(label string, n int64) {
			if n != 0 && (n != 2 || label != row.Counted) {
				t.Errorf("%s is counted %d times, as %q, want 2", row.Counted, n, label)
			}
			if label == row.Counted && n == 0 {
				t.Errorf("%s is not counted", row.Counted)
			}
		})
	}
}
