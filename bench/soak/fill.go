package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

const (
	fillClients = 64 // at once
	fillTo      = 250
)

// filled is what a store has after calls have sent events.
type filled struct {
	Events   int64   `json:"events"`
	Streams  int64   `json:"streams"`
	Messages float64 `json:"appends_and_records"`
	Bytes    float64 `json:"bytes_of_the_log"`
	Disk     int64   `json:"bytes_on_the_disk"`
	Seconds  float64 `json:"seconds_to_fill"`
}

// fill has calls send so many events, and returns when all of them are stored. Each call is a stream of its own, and
// counts to fillTo.
func (w *world) fill(events int) (f filled, err error) {
	began := time.Now()
	var next, sent, told atomic.Int64
	err = each(fillClients, fillClients, func(int) error {
		c, err := w.session()
		if err != nil {
			return err
		}
		for sent.Load() < int64(events) {
			_, got, err := countCall(w.ctx, c, int(next.Add(1)), fillTo, 1, true)
			if err != nil {
				return err
			}
			sent.Add(int64(got))
			if s := int64(time.Since(began) / (5 * time.Second)); told.Swap(s) != s {
				fmt.Fprintf(w.o.log, "%3.0f s: %d of %d events\n", time.Since(began).Seconds(), sent.Load(), events)
			}
		}
		return nil
	})
	if err != nil {
		return f, err
	}
	f.Streams = next.Load()
	f.Events, f.Seconds = sent.Load(), time.Since(began).Seconds()
	return f, w.stored(&f)
}

// countCall makes a call that counts to a number, reads its stream to the end, and returns the id before its first event, and how many events came. With
// progress each step is two of them.
func countCall(ctx context.Context, c *client.Client, n, to, delay int, progress bool) (stream string, events int, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	id, meta := strconv.Itoa(n), ""
	if progress {
		meta = fmt.Sprintf(`,"_meta":{"progressToken":%d}`, n)
	}
	a, err := c.Call(ctx, id, "tools/call", fmt.Sprintf(`{"name":"count","arguments":{"to":%d,"delay_ms":%d}%s}`, to, delay, meta))
	if err != nil {
		return "", 0, err
	}
	defer a.Close()
	if a.Events == nil {
		return "", 0, fmt.Errorf("a call got %d %.200s", a.Status, a.Body)
	}
	for {
		e, err := a.Events.Next()
		if err != nil {
			return "", events, fmt.Errorf("the stream of a call after %d events: %w", events, err)
		}
		if e.Data == "" {
			continue // It primes the stream, and is not stored.
		}
		events++
		if m := parse(e.Data); m.answers(id) {
			if m.Result == nil || m.counted() != to || events <= to {
				return "", events, fmt.Errorf("after %d events the answer is %s", events, e.Data)
			}
			p, err := client.ParseID(e.ID)
			c.Forget(p.Stream)
			return p.Stream + ".0.0", events, err
		}
	}
}

// counted is how far the answer says that its call has counted.
func (m *message) counted() (to int) {
	if m.Result != nil && len(m.Result.Content) == 1 {
		_, _ = fmt.Sscanf(m.Result.Content[0].Text, "counted to %d", &to)
	}
	return to
}

// stored says what the log has.
func (w *world) stored(f *filled) error {
	m, err := metricsOf(w.p.addr)
	if err != nil {
		return err
	}
	for name, to := range map[string]*float64{`troupe_store_messages{stream="events"}`: &f.Messages, `troupe_store_bytes{stream="events"}`: &f.Bytes} {
		v, ok := m[name]
		if !ok {
			return fmt.Errorf("the process has no %s", name)
		}
		*to = v
	}
	return filepath.Walk(w.o.data, func(_ string, i os.FileInfo, err error) error {
		if err == nil && i.Mode().IsRegular() {
			f.Disk += i.Size()
		}
		return nil // Files come and go.
	})
}
