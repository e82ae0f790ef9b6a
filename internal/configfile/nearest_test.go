package configfile

import "testing"

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"listen", "max-depth", "max-batch", "nats", "data"}
	for name, want := range map[string]string{
		"lisen": "listen", "max-dept": "max-depth", "maxdepth": "max-depth", "max_batch": "max-batch", "Listen": "listen", "nat": "nats", "dat": "data",
		"lsiten": "listen", "adta": "data", "dtaa": "data", "atad": "", "nast": "nats",
		"bogus": "", "": "", "x": "", "max": "", "depth": "",
	} {
		if want != "" {
			want = "; did you mean " + want + "?"
		}
		if got := Nearest(name, known); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
