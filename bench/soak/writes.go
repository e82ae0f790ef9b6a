package main

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

const (
	writesStreams = 100 // at once, over all nodes
	writesFor     = 10 * time.Second
	writesEvents  = 50 // of each call
	writesTasks   = 320
	writesSteps   = 5
)

// writesCost is how much a fleet stores when nobody waits for anything else.
type writesCost struct {
	Sync    string  `json:"sync"` // when NATS has a write on the disk: "always" before it is acknowledged
	Streams int     `json:"streams"`
	Events  int64   `json:"events"`
	Rate    float64 `json:"events_per_second"`
	Tasks   int     `json:"tasks"`
	Steps   int     `json:"steps_of_each_task"`
	Done    float64 `json:"tasks_per_second"`
}

// writes has calls on all nodes send events as fast as they are stored, and then tasks store their steps.
func (c *costs) writes(r *costsReport) error {
	s := &writesCost{Sync: "2m", Streams: writesStreams, Tasks: writesTasks, Steps: writesSteps}
	if c.o.sync {
		s.Sync = "always"
	}
	var events atomic.Int64
	began := time.Now()
	err := each(writesStreams, writesStreams, func(i int) error {
		rt := c.connections(i)
		defer rt.CloseIdleConnections()
		k := client.New(c.f.nodes[i%len(c.f.nodes)].url(0), rt)
		if err := k.Initialize(c.ctx, `{}`); err != nil {
			return err
		}
		for n := 1; time.Since(began) < writesFor; n++ {
			_, got, err := countCall(c.ctx, k, n, writesEvents, 0, false)
			if err != nil {
				return fmt.Errorf("stream %d of client %d: %w", n, i, err)
			}
			events.Add(int64(got) - 1)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.Events = events.Load()
	s.Rate = float64(s.Events) / time.Since(began).Seconds()

	t := newLedger(c.ctx, c.o, c.f.nodes[0].url(0), writesSteps, 0)
	began = time.Now()
	t.create(writesTasks)
	if t.unsure > 0 {
		return fmt.Errorf("%d of %d tasks were not made", t.unsure, writesTasks)
	}
	if err := t.finish(); err != nil {
		return err
	}
	s.Done = writesTasks / time.Since(began).Seconds()
	r.Writes = s
	return nil
}
