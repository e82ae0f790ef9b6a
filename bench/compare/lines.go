package main

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"text/template"
)

// The measures of a plot of lines, in pixels.
const (
	linesWidth, linesHeight = 760, 420
	linesLeft, linesRight   = 80, 560 // of the field; the names of the lines follow
	linesTop, linesBottom   = 48, 360
	nameStep                = 16 // between the names
)

// A point is the median of a figure at x, with a whisker from the least to the most.
type point struct {
	x float64
	spread
}

// A series is what one server has.
type series struct {
	name   string
	points []point
}

// A chart has a line for each series. Unless they are linear, the distances of x are logarithmic, and 0 lies a decade before the least x above it.
type chart struct {
	title, x      string
	linearX, logY bool
	series        []series
}

// What is drawn, in pixels.
type (
	tick struct {
		At    int
		Label string
	}
	whisker struct{ X, Y, Least, Most int }
	line    struct {
		Name, Colour, Path string
		NameY              int
		Points             []whisker
	}
	drawing struct {
		Title, X                         string
		Width, Height                    int
		Left, Right, Top, Bottom, Middle int
		Across, Up                       []tick
		Lines                            []line
	}
)

var chartSVG = template.Must(template.New("chart").Parse(`<svg xmlns="http://www.w3.org/2000/svg" width="{{.Width}}" height="{{.Height}}" viewBox="0 0 {{.Width}} {{.Height}}" font-family="sans-serif" font-size="13">
<rect width="100%" height="100%" fill="white"/>
<text x="12" y="26" font-size="15">{{.Title}}</text>
{{- $d := .}}
{{- range .Up}}
<path d="M{{$d.Left}} {{.At}}H{{$d.Right}}" stroke="#ddd"/>
<text x="{{$d.Left}}" dx="-8" y="{{.At}}" dy="4" text-anchor="end">{{.Label}}</text>
{{- end}}
{{- range .Across}}
<path d="M{{.At}} {{$d.Top}}V{{$d.Bottom}}" stroke="#ddd"/>
<text x="{{.At}}" y="{{$d.Bottom}}" dy="18" text-anchor="middle">{{.Label}}</text>
{{- end}}
<text x="{{.Middle}}" y="{{.Bottom}}" dy="42" text-anchor="middle">{{.X}}</text>
{{- range .Lines}}
<path d="{{.Path}}" stroke="{{.Colour}}" stroke-width="2" fill="none"/>
{{- $l := .}}
{{- range .Points}}
<path d="M{{.X}} {{.Least}}V{{.Most}}" stroke="{{$l.Colour}}"/>
<circle cx="{{.X}}" cy="{{.Y}}" r="3" fill="{{$l.Colour}}"/>
{{- end}}
<text x="{{$d.Right}}" dx="12" y="{{.NameY}}" dy="4" fill="{{.Colour}}">{{.Name}}</text>
{{- end}}
<path d="M{{.Left}} {{.Top}}V{{.Bottom}}H{{.Right}}" stroke="#222" fill="none"/>
</svg>
`))

// colours are those of the lines, by the place of a server in [servers].
var colours = []string{"#8a94a6", "#b5bcc9", "#7db3e0", "#1f5f9e", "#3f9a5a", "#d98324", "#b4531f", "#b08cc9", "#7c4d9e"}

// draw returns the drawing of a chart. Points without a figure are left out, and so are lines without two points.
func (c chart) draw() drawing {
	d := drawing{Title: c.title, X: c.x, Width: linesWidth, Height: linesHeight, Left: linesLeft, Right: linesRight, Top: linesTop, Bottom: linesBottom, Middle: (linesLeft + linesRight) / 2}
	var xs, ys []float64
	for _, s := range c.series {
		for _, p := range s.points {
			if p.median > 0 {
				xs, ys = append(xs, p.x), append(ys, p.least, p.most)
			}
		}
	}
	if len(xs) == 0 {
		return d
	}
	slices.Sort(xs)
	xs = slices.Compact(xs)
	across := acrossScale(xs, c.linearX)
	for _, x := range xs {
		d.Across = append(d.Across, tick{across(x), counted(x)})
	}
	up, ticks := c.upScale(slices.Min(ys), slices.Max(ys))
	for _, y := range ticks {
		d.Up = append(d.Up, tick{up(y), counted(y)})
	}
	for _, s := range c.series {
		l := line{Name: s.name, Colour: colours[0]}
		if i := place(s.name); i >= 0 {
			l.Colour = colours[i%len(colours)]
		}
		var path strings.Builder
		for _, p := range s.points {
			if p.median <= 0 {
				continue
			}
			w := whisker{across(p.x), up(p.median), up(p.least), up(p.most)}
			fmt.Fprintf(&path, "%c%d %d", "ML"[min(1, len(l.Points))], w.X, w.Y)
			l.Points, l.NameY = append(l.Points, w), w.Y
		}
		if l.Path = path.String(); len(l.Points) > 1 {
			d.Lines = append(d.Lines, l)
		}
	}
	spreadNames(d.Lines)
	return d
}

// acrossScale returns where an x lies, of those that there are in order.
func acrossScale(xs []float64, linear bool) func(float64) int {
	least, most := xs[0], xs[len(xs)-1]
	if linear {
		return func(x float64) int { return linesLeft + int((x-least)/max(most-least, 1)*(linesRight-linesLeft)) }
	}
	if least == 0 && len(xs) > 1 {
		least = xs[1] / 10
	}
	if least == 0 {
		least = 1
	}
	from, to := math.Log10(least), math.Log10(max(least, most))
	return func(x float64) int {
		if to == from {
			return linesLeft
		}
		return linesLeft + int((math.Log10(max(x, least))-from)/(to-from)*(linesRight-linesLeft))
	}
}

// upScale returns where a y lies, and which have a line across: powers of ten if the scale is logarithmic, and else about five from 0 on.
func (c chart) upScale(least, most float64) (at func(float64) int, ticks []float64) {
	height := float64(linesBottom - linesTop)
	if c.logY && least > 0 {
		from, to := math.Floor(math.Log10(least)), math.Ceil(math.Log10(most))
		to = max(to, from+1)
		for e := from; e <= to; e++ {
			ticks = append(ticks, math.Pow(10, e))
		}
		return func(y float64) int {
			return linesBottom - int((math.Log10(max(y, math.Pow(10, from)))-from)/(to-from)*height)
		}, ticks
	}
	step := math.Pow(10, math.Floor(math.Log10(most)))
	for most/step < 3 {
		step /= 2
	}
	end := math.Ceil(most/step) * step
	for y := 0.0; y <= end; y += step {
		ticks = append(ticks, y)
	}
	return func(y float64) int { return linesBottom - int(y/end*height) }, ticks
}

// spreadNames moves the names of lines apart that end close to each other.
func spreadNames(lines []line) {
	order := make([]*line, len(lines))
	for i := range lines {
		order[i] = &lines[i]
	}
	slices.SortFunc(order, func(a, b *line) int { return cmp.Compare(a.NameY, b.NameY) })
	for i := 1; i < len(order); i++ {
		order[i].NameY = max(order[i].NameY, order[i-1].NameY+nameStep)
	}
	bottom := linesBottom
	for i := len(order) - 1; i >= 0 && order[i].NameY > bottom; i-- {
		order[i].NameY = bottom
		bottom -= nameStep
	}
}

// counted is a figure in few letters.
func counted(f float64) string {
	switch {
	case f >= 1e6:
		return fmt.Sprintf("%gM", f/1e6)
	case f >= 1e3:
		return fmt.Sprintf("%gk", f/1e3)
	}
	return fmt.Sprintf("%g", f)
}

// write draws the chart into a file.
func (c chart) write(file string) error {
	var b strings.Builder
	if err := chartSVG.Execute(&b, c.draw()); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(b.String()), 0o644)
}
