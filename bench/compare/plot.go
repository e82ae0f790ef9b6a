package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// The measures of a plot, in pixels.
const (
	plotWidth = 760
	barLeft   = 180 // where bars begin
	barSpace  = 380 // the length of the longest, its whisker included
	barHeight = 18
	barStep   = 28
	firstBar  = 48 // the top of the first
)

// A bar is the median of a figure, with a whisker from the least to the most.
type bar struct {
	Name, Label               string
	Colour                    string
	Top, Middle, Base, LabelX int
	Length, Least, Most       int
}

// A plot is a drawing of horizontal bars.
type plot struct {
	Title         string
	Width, Height int
	Left, Bottom  int
	BarHeight     int
	Bars          []bar
}

var svg = template.Must(template.New("svg").Parse(`<svg xmlns="http://www.w3.org/2000/svg" width="{{.Width}}" height="{{.Height}}" viewBox="0 0 {{.Width}} {{.Height}}" font-family="sans-serif" font-size="13">
<rect width="100%" height="100%" fill="white"/>
<text x="12" y="26" font-size="15">{{.Title}}</text>
{{- $p := .}}
{{- range .Bars}}
<text x="{{$p.Left}}" dx="-8" y="{{.Base}}" text-anchor="end">{{.Name}}</text>
<rect x="{{$p.Left}}" y="{{.Top}}" width="{{.Length}}" height="{{$p.BarHeight}}" fill="{{.Colour}}"/>
<path d="M{{.Least}} {{.Middle}}H{{.Most}}M{{.Least}} {{.Top}}v{{$p.BarHeight}}M{{.Most}} {{.Top}}v{{$p.BarHeight}}" stroke="#222" fill="none"/>
<text x="{{.LabelX}}" y="{{.Base}}">{{.Label}}</text>
{{- end}}
<path d="M{{.Left}} 40V{{.Bottom}}" stroke="#222"/>
</svg>
`))

// draw draws the processor time and the latency of a scenario into files of a directory.
func draw(dir string, s scenario, rows []row) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	cpu := func(r row) (spread, string) {
		return r.cpu, fmt.Sprintf("%.1f µs, %.2f × bare", r.cpu.median, r.ratio.median)
	}
	p99 := func(r row) (spread, string) { return r.p99, fmt.Sprintf("%.1f ms", r.p99.median) }
	return errors.Join(
		newPlot("Processor time of the server for a request: "+s.String(), rows, cpu).write(filepath.Join(dir, "peers-"+s.name+"-cpu.svg")),
		newPlot("p99 with all clients busy: "+s.String(), rows, p99).write(filepath.Join(dir, "peers-"+s.name+"-p99.svg")),
	)
}

// newPlot makes a bar of a figure of each row.
func newPlot(title string, rows []row, figure func(row) (spread, string)) *plot {
	p := &plot{Title: title, Width: plotWidth, Height: firstBar + len(rows)*barStep + 8, Left: barLeft, BarHeight: barHeight}
	p.Bottom = p.Height - 8
	longest := 0.0
	for _, r := range rows {
		f, _ := figure(r)
		longest = max(longest, f.most)
	}
	if longest == 0 {
		longest = 1
	}
	pixels := func(f float64) int { return int(f / longest * barSpace) }
	for i, r := range rows {
		f, label := figure(r)
		b := bar{Name: r.server, Label: label, Colour: "#b0b7c3", Top: firstBar + i*barStep}
		if strings.HasPrefix(r.server, "troupe") {
			b.Colour = "#3b82c4"
		}
		b.Middle, b.Base = b.Top+barHeight/2, b.Top+barHeight-4
		b.Length, b.Least, b.Most = pixels(f.median), barLeft+pixels(f.least), barLeft+pixels(f.most)
		b.LabelX = b.Most + 8
		p.Bars = append(p.Bars, b)
	}
	return p
}

func (p *plot) write(file string) error {
	var b strings.Builder
	if err := svg.Execute(&b, p); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(b.String()), 0o644)
}
