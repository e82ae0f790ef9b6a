package loadgen

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Compare writes how two reports differ: the settings, and each figure of b as so many times that
// of a.
func Compare(w io.Writer, a, b *Report) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, s := range []struct{ what, a, b string }{
		{"url", a.URL, b.URL}, {"scenario", a.Scenario, b.Scenario}, {"revision", a.Revision, b.Revision}, {"clients", fmt.Sprint(a.Clients), fmt.Sprint(b.Clients)},
		{"rate", fmt.Sprint(a.Rate), fmt.Sprint(b.Rate)}, {"size", fmt.Sprint(a.Size), fmt.Sprint(b.Size)}, {"count", fmt.Sprint(a.Count), fmt.Sprint(b.Count)}, {"tool", a.Tool, b.Tool},
	} {
		if s.a != s.b {
			fmt.Fprintf(t, "%s\t%s\t%s\tdiffers\t\n", s.what, s.a, s.b)
		}
	}
	then := b.Figures()
	for i, f := range a.Figures() {
		switch g := then[i]; {
		case f.Value == 0 && g.Value == 0:
		case f.Value == 0 || g.Value == 0:
			fmt.Fprintf(t, "%s\t%.2f\t%.2f\t\t\n", f.Name, f.Value, g.Value)
		default:
			fmt.Fprintf(t, "%s\t%.2f\t%.2f\tx %.2f\t\n", f.Name, f.Value, g.Value, g.Value/f.Value)
		}
	}
	return t.Flush()
}
