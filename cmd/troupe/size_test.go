package main

import "testing"

func TestSize(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		want int64 // 0 if refused
	}{
		{"1", 1}, {"512", 512}, {"512B", 512}, {"4KiB", 4096}, {"4kib", 4096}, {"4 MiB", 4 << 20}, {"8GiB", 8 << 30}, {"2TiB", 2 << 40},
		{"10KB", 10_000}, {"10MB", 10_000_000}, {"10gb", 10_000_000_000}, {"1TB", 1_000_000_000_000}, {"9223372036854775807", 1<<63 - 1},
		{"", 0}, {"0", 0}, {"0GiB", 0}, {"-1", 0}, {"-1GiB", 0}, {"1.5GiB", 0}, {"GiB", 0}, {"B", 0}, {"8G", 0}, {"8XB", 0}, {"8GiBs", 0},
		{"9223372036854775808", 0}, {"9999999999GiB", 0}, {"8388608TiB", 0}, {"8388607TiB", 8388607 << 40}, {"0x10", 0}, {"1_000", 0}, {"8\nGiB", 0},
	} {
		var s size
		err := s.Set(tt.text)
		if (err == nil) != (tt.want > 0) || int64(s) != tt.want {
			t.Errorf("%q is %d (%v), want %d", tt.text, s, err, tt.want)
		}
	}
}

func TestSizeString(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]size{"": 0, "1": 1, "1000": 1000, "1KiB": 1024, "1025": 1025, "4MiB": 4 << 20, "8GiB": 8 << 30, "1536MiB": 3 << 29} {
		if got := s.String(); got != want {
			t.Errorf("%d is %q, want %q", int64(s), got, want)
		}
	}
}

func FuzzSize(f *testing.F) {
	for _, text := range []string{"8GiB", "1", "10 kb", "-1", "B", "9999999999GiB"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var s, again size
		if s.Set(text) != nil {
			if s != 0 {
				t.Errorf("%q was refused and left %d", text, s)
			}
			return
		}
		if s <= 0 {
			t.Errorf("%q is %d", text, s)
		}
		if err := again.Set(s.String()); err != nil || again != s {
			t.Errorf("%q is %d, written as %s and read again %d (%v)", text, s, s.String(), again, err)
		}
	})
}
