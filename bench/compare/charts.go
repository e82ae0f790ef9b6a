package main

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
)

// What a chart shows of a group.
type shown struct {
	group       group
	name        string // of the file
	title, x    string
	logarithmic bool                   // y; all x but nodes are
	of          func(scenario) float64 // x
	figure      func(row) spread
}

var charts = []shown{
	{sizes, "peers-sizes-cpu", "Processor time of the server for a call, µs: echo, 8 clients", "bytes of text", true, scenario.bytes, cpuOf},
	{sessions, "peers-sessions-cpu", "Processor time of the server for a call, µs, while sessions are held", "sessions", false, scenario.held, cpuOf},
	{sessions, "peers-sessions-memory", "Memory of the server after a collection, MiB", "sessions", false, scenario.held, memoryOf},
	{streams, "peers-streams-cpu", "Processor time of the server for a call, µs, while event streams are open", "event streams", false, scenario.held, cpuOf},
	{streams, "peers-streams-memory", "Memory of the server after a collection, MiB", "event streams", false, scenario.held, memoryOf},
	{nodes, "nodes-cpu", "Processor time of all nodes and NATS for a call, µs", "nodes", false, scenario.held, cpuOf},
}

func (s scenario) bytes() float64 { return float64(s.size) }
func (s scenario) held() float64  { return float64(s.count) }

func cpuOf(r row) spread    { return r.cpu }
func memoryOf(r row) spread { return r.after }

// chart returns the chart of results.
func (w shown) chart(results []result) chart {
	c := chart{title: w.title, x: w.x, logY: w.logarithmic, linearX: w.group == nodes}
	if !c.linearX {
		c.x += " (logarithmic)"
	}
	points := make(map[string][]point)
	for _, s := range scenarios {
		if s.group != w.group {
			continue
		}
		for _, r := range summarize(results, s.name) {
			points[r.server] = append(points[r.server], point{w.of(s), w.figure(r)})
		}
	}
	for name, all := range points {
		c.series = append(c.series, series{name, all})
	}
	slices.SortFunc(c.series, func(a, b series) int { return cmp.Compare(place(a.name), place(b.name)) })
	return c
}

// drawCharts draws the charts for which there are lines into files of a directory.
func drawCharts(dir string, results []result) (failed error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, w := range charts {
		if c := w.chart(results); len(c.draw().Lines) > 0 {
			failed = errors.Join(failed, c.write(filepath.Join(dir, w.name+".svg")))
		}
	}
	return failed
}
