package main

import (
	"cmp"
	"errors"
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The measures of the drawings, in pixels.
const (
	width             = 760
	barLeft, barRight = 180, 560 // of the field of bars; the figures follow
	barTop, barStep   = 48, 28   // of the first bar, and from one to the next
	barHeight         = 18
	linesHeight       = 420
	linesLeft         = 80
	linesRight        = 560 // the names of the lines follow
	linesTop          = 48
	linesBottom       = 360
	nameStep          = 16 // between the names
)

// colours are those of lines, by the place of a server in [servers].
var colours = []string{"#8a94a6", "#b5bcc9", "#7db3e0", "#1f5f9e", "#3f9a5a", "#d98324", "#b4531f", "#b08cc9", "#7c4d9e"}

// A drawing is an SVG that grows.
type drawing struct{ strings.Builder }

func newDrawing(height int, title string) *drawing {
	d := new(drawing)
	fmt.Fprintf(d, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %[1]d %[2]d\" font-family=\"sans-serif\" font-size=\"13\">\n"+
		"<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n", width, height)
	d.addText(12, 26, `font-size="15"`, title)
	return d
}

func (d *drawing) addText(x, y int, attributes, text string) {
	fmt.Fprintf(d, "<text x=\"%d\" y=\"%d\" %s>%s</text>\n", x, y, attributes, html.EscapeString(text))
}

func (d *drawing) addPath(attributes, format string, at ...any) {
	fmt.Fprintf(d, "<path d=\"%s\" %s/>\n", fmt.Sprintf(format, at...), attributes)
}

func (d *drawing) writeFile(file string) error {
	d.WriteString("</svg>\n")
	return os.WriteFile(file, []byte(d.String()), 0o644)
}

// drawBars draws the processor time of a scenario: a bar for each server, with a whisker from the
// least to the most.
func drawBars(dir string, s scenario, rows []row) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	longest := 0.0
	for _, r := range rows {
		longest = max(longest, r.spread(cpu).most)
	}
	across := scale{to: cmp.Or(longest, 1), start: barLeft, end: barRight}
	bottom := barTop + len(rows)*barStep
	d := newDrawing(bottom+8, "Processor time of the server for a request: "+s.String())
	for i, r := range rows {
		f, top, colour := r.spread(cpu), barTop+i*barStep, "#b0b7c3"
		if strings.HasPrefix(r.server, "troupe") {
			colour = "#3b82c4"
		}
		least, most := across.at(f.least), across.at(f.most)
		d.addText(barLeft-8, top+barHeight-4, `text-anchor="end"`, r.server)
		fmt.Fprintf(d, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\"/>\n", barLeft, top, across.at(f.median)-barLeft, barHeight, colour)
		d.addPath(`stroke="#222" fill="none"`, "M%d %dH%dM%[1]d %[4]dv%[5]dM%[3]d %[4]dv%[5]d", least, top+barHeight/2, most, top, barHeight)
		d.addText(most+8, top+barHeight-4, "", fmt.Sprintf("%.1f µs, %.2f × bare", f.median, r.spread(ratio).median))
	}
	d.addPath(`stroke="#222"`, "M%d 40V%d", barLeft, bottom)
	return d.writeFile(filepath.Join(dir, "peers-"+s.name+"-cpu.svg"))
}

// A chart shows a figure of a group, with a line for each server.
type chart struct {
	group       group
	name        string // of the file
	title, x    string
	logarithmic bool                   // y; all x but nodes are
	of          func(scenario) float64 // x
	figure      func(result) float64   // y
}

var charts = []chart{
	{sizes, "peers-sizes-cpu", "Processor time of the server for a call, µs: echo, 8 clients", "bytes of text", true, scenario.bytes, cpu},
	{sessions, "peers-sessions-cpu", "Processor time of the server for a call, µs, while sessions are held", "sessions", false, scenario.held, cpu},
	{sessions, "peers-sessions-memory", "Memory of the server after a collection, MiB", "sessions", false, scenario.held, heldAfter},
	{streams, "peers-streams-cpu", "Processor time of the server for a call, µs, while event streams are open", "event streams", false, scenario.held, cpu},
	{streams, "peers-streams-memory", "Memory of the server after a collection, MiB", "event streams", false, scenario.held, heldAfter},
	{nodes, "nodes-cpu", "Processor time of all nodes and NATS for a call, µs", "nodes", false, scenario.held, cpu},
}

// drawCharts draws the charts for which there are lines into files of a directory.
func drawCharts(dir string, results []result) (failed error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, c := range charts {
		lines := make(map[string][]point)
		for _, s := range scenarios {
			for _, r := range rowsOf(results, s.name) {
				if f := r.spread(c.figure); s.group == c.group && f.median > 0 {
					lines[r.server] = append(lines[r.server], point{c.of(s), f})
				}
			}
		}
		if d := c.drawLines(lines); d != nil {
			failed = errors.Join(failed, d.writeFile(filepath.Join(dir, c.name+".svg")))
		}
	}
	return failed
}

// A point is the median of a figure at x, with a whisker from the least to the most.
type point struct {
	x float64
	spread
}

// drawLines draws lines by server, those of two points and more. It returns nil if there are none.
func (c chart) drawLines(lines map[string][]point) *drawing {
	var xs, ys []float64
	var names []string
	for _, v := range servers {
		if len(lines[v.name]) < 2 {
			continue
		}
		names = append(names, v.name)
		for _, p := range lines[v.name] {
			xs, ys = append(xs, p.x), append(ys, p.least, p.most)
		}
	}
	if names == nil {
		return nil
	}
	slices.Sort(xs)
	xs = slices.Compact(xs)
	title := c.x
	if c.group != nodes {
		title += " (logarithmic)"
	}
	across := acrossScale(xs, c.group != nodes)
	up, ticks := upScale(slices.Min(ys), slices.Max(ys), c.logarithmic)
	d := newDrawing(linesHeight, c.title)
	for _, y := range ticks {
		d.addPath(`stroke="#ddd"`, "M%d %dH%d", linesLeft, up.at(y), linesRight)
		d.addText(linesLeft-8, up.at(y)+4, `text-anchor="end"`, shortFigure(y))
	}
	for _, x := range xs {
		d.addPath(`stroke="#ddd"`, "M%d %dV%d", across.at(x), linesTop, linesBottom)
		d.addText(across.at(x), linesBottom+18, `text-anchor="middle"`, shortFigure(x))
	}
	d.addText((linesLeft+linesRight)/2, linesBottom+42, `text-anchor="middle"`, title)
	var ends []int
	for _, name := range names {
		colour, path := colours[placeOf(name)], ""
		for i, p := range lines[name] {
			x, y := across.at(p.x), up.at(p.median)
			path += fmt.Sprintf("%c%d %d", "ML"[min(1, i)], x, y)
			d.addPath(`stroke="`+colour+`"`, "M%d %dV%d", x, up.at(p.least), up.at(p.most))
			fmt.Fprintf(d, "<circle cx=\"%d\" cy=\"%d\" r=\"3\" fill=\"%s\"/>\n", x, y, colour)
		}
		d.addPath(`stroke="`+colour+`" stroke-width="2" fill="none"`, "%s", path)
		ends = append(ends, up.at(lines[name][len(lines[name])-1].median))
	}
	spreadNames(ends)
	for i, name := range names {
		d.addText(linesRight+12, ends[i]+4, `fill="`+colours[placeOf(name)]+`"`, name)
	}
	d.addPath(`stroke="#222" fill="none"`, "M%d %dV%dH%d", linesLeft, linesTop, linesBottom, linesRight)
	return d
}

// A scale gives values from one to another a place between two pixels.
type scale struct {
	from, to    float64
	logarithmic bool
	start, end  int
}

func (s scale) at(v float64) int {
	from, to := s.from, s.to
	if s.logarithmic {
		v, from, to = math.Log10(max(v, from)), math.Log10(from), math.Log10(to)
	}
	if to == from {
		return s.start
	}
	return s.start + int(math.Round((v-from)/(to-from)*float64(s.end-s.start)))
}

// acrossScale is the scale of the values x, which are in order. On a logarithmic one 0 lies a
// decade before the least above it.
func acrossScale(xs []float64, logarithmic bool) scale {
	from := xs[0]
	if logarithmic && from == 0 {
		from = xs[1] / 10
	}
	return scale{from, xs[len(xs)-1], logarithmic, linesLeft, linesRight}
}

// upScale is the scale of y, and the values that have a line across: powers of ten if it is
// logarithmic, and else about five from 0 on.
func upScale(least, most float64, logarithmic bool) (s scale, ticks []float64) {
	s = scale{start: linesBottom, end: linesTop, logarithmic: logarithmic}
	if logarithmic {
		from := math.Floor(math.Log10(least))
		to := max(math.Ceil(math.Log10(most)), from+1)
		for e := from; e <= to; e++ {
			ticks = append(ticks, math.Pow(10, e))
		}
	} else {
		step := math.Pow(10, math.Floor(math.Log10(most)))
		for most/step < 3 {
			step /= 2
		}
		for n := 0.0; n <= math.Ceil(most/step); n++ {
			ticks = append(ticks, n*step)
		}
	}
	s.from, s.to = ticks[0], ticks[len(ticks)-1]
	return s, ticks
}

// spreadNames moves the places of names apart that are close to each other, and none below the
// field.
func spreadNames(at []int) {
	order := make([]*int, len(at))
	for i := range at {
		order[i] = &at[i]
	}
	slices.SortStableFunc(order, func(a, b *int) int { return cmp.Compare(*a, *b) })
	for i := 1; i < len(order); i++ {
		*order[i] = max(*order[i], *order[i-1]+nameStep)
	}
	for i, bottom := len(order)-1, linesBottom; i >= 0 && *order[i] > bottom; i, bottom = i-1, bottom-nameStep {
		*order[i] = bottom
	}
}

// shortFigure writes a figure in few letters.
func shortFigure(f float64) string {
	switch {
	case f >= 1e6:
		return fmt.Sprintf("%gM", f/1e6)
	case f >= 1e3:
		return fmt.Sprintf("%gk", f/1e3)
	}
	return fmt.Sprintf("%g", f)
}
