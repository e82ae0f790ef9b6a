package main

import (
	"fmt"
	"io"
	"time"
)

// progress says what is being done, a line at a time.
type progress struct{ to io.Writer }

func (p progress) say(format string, args ...any) { _, _ = fmt.Fprintf(p.to, format+"\n", args...) }

// often is how often something that takes long is told of.
const often = 5 * time.Second

// during says what is being done, runs it, and says every five seconds how far it is, and at last how long it took.
func (p progress) during(what string, far func() string, do func() error) error {
	began := time.Now()
	p.say("%s ...", what)
	done := make(chan error, 1)
	go func() { done <- do() }()
	tick := time.NewTicker(often)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			if err == nil {
				p.say("%s: %.1f s", what, time.Since(began).Seconds())
			}
			return err
		case <-tick.C:
			p.say("%s: %s, %.0f s so far", what, far(), time.Since(began).Seconds())
		}
	}
}
