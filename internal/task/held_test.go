package task

import (
	"errors"
	"testing"
	"time"
)

// TestHolder: a record names the process whose handler waits, until the task runs again, ends, or the handler is gone.
func TestHolder(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_000_000)
	waiting := func() (Record, uint64) {
		t.Helper()
		r := New(now, time.Hour)
		epoch, err := r.BeginAttempt("a", "1", now)
		if err == nil {
			err = r.AskQuestions(epoch, now, Question{Key: "q"})
		}
		if err == nil {
			err = r.AskQuestions(epoch, now, Question{Key: "p"})
		}
		if err != nil {
			t.Fatal(err)
		}
		return r, epoch
	}
	for name, tt := range map[string]struct {
		change func(r *Record, epoch uint64) error
		want   string
	}{
		"it waits": {func(*Record, uint64) error { return nil }, "a 1"},
		"it has its answers": {func(r *Record, _ uint64) error {
			_, err := r.TakeAnswers(map[string]Reply{"q": {Value: []byte("1")}, "p": {Value: []byte("1")}}, now)
			return err
		}, "a 1"},
		"it runs again": {func(r *Record, _ uint64) error {
			if _, err := r.TakeAnswers(map[string]Reply{"q": {Value: []byte("1")}, "p": {Value: []byte("1")}}, now); err != nil {
				return err
			}
			_, err := r.BeginAttempt("b", "2", now)
			return err
		}, " "},
		"it ends":             {func(r *Record, _ uint64) error { return r.Cancel(now) }, " "},
		"the handler is gone": {func(r *Record, epoch uint64) error { return r.ReleaseHolder(epoch) }, " "},
		"another's is": {func(r *Record, epoch uint64) error {
			if err := r.ReleaseHolder(epoch + 1); !errors.Is(err, ErrFenced) {
				t.Errorf("released under another epoch: %v", err)
			}
			return nil
		}, "a 1"},
	} {
		r, epoch := waiting()
		if err := tt.change(&r, epoch); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := r.Holder + " " + r.HolderBoot; got != tt.want {
			t.Errorf("%s: the holder is %q, want %q", name, got, tt.want)
		}
	}
}
