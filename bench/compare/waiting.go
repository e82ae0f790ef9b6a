package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// mostLeft is what each of those that waited may leave behind, in bytes, the first time and the second. The runtime keeps the headers of
// goroutines for the next ones, and maps do not shrink. After that the process may grow by less: the registry of actors is of 32,768 maps, each
// of which keeps its first 270 bytes. A call or a listener that is never let go of takes several times that.
var mostLeft = [...]float64{1200, 600}

// goneWithin bounds how long those that waited may be counted after they have ended.
const goneWithin = time.Minute

// waiting has calls or listeners wait twice, and looks at what is live while they do and once they have ended. What is over its budget has
// failed, and so has what stays behind.
func (r run) waiting(ctx context.Context) (result, error) {
	got := result{Scenario: r.s.name, Server: r.v.name, Held: &kept{Count: r.s.count}}
	if _, err := r.bench(ctx, "--duration", warmFor.String(), "--warm-up", "-1s"); err != nil {
		return got, err
	}
	before, err := r.p.collect(ctx)
	if err != nil {
		return got, err
	}
	for i, most := range mostLeft {
		var there int64
		begun, err := r.keep(ctx, func(ctx context.Context) (err error) {
			there, err = r.p.collect(ctx)
			return err
		})
		if err != nil {
			return got, err
		}
		got.fail(begun)
		each := float64(there-before) / float64(r.s.count)
		if each > r.s.budget {
			got.failBudget("%.0f bytes each", each)
		}
		if err := r.awaitGone(ctx); err != nil {
			got.failBudget("%v", err)
		}
		after, err := r.p.collect(ctx)
		if err != nil {
			return got, err
		}
		left := float64(after-before) / float64(r.s.count)
		if left > most {
			got.failBudget("%.0f bytes left of each", left)
		}
		if before = after; i == 0 {
			got.Held.Live, got.Held.Left, got.Held.PerSecond = each, left, begun.PerSecond
		}
	}
	return got, nil
}

// awaitGone waits until the server counts none of those that waited, and until their connections have ended, which is a moment later.
func (r run) awaitGone(ctx context.Context) error {
	for end := time.Now().Add(goneWithin); ; time.Sleep(500 * time.Millisecond) {
		counted, err := r.stillCounted(ctx)
		if err == nil && counted == "" {
			time.Sleep(2 * time.Second)
			return nil
		}
		if err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s after %v", counted, goneWithin)
		}
	}
}

// stillCounted is what the server says of calls and listeners that are there, "" if there are none.
func (r run) stillCounted(ctx context.Context) (string, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(r.p.url, "/mcp")+"/metrics", nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(q)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		line := lines.Text()
		if (strings.HasPrefix(line, `troupe_actors{kind="request"}`) || strings.HasPrefix(line, `troupe_actors{kind="subscription"}`)) && !strings.HasSuffix(line, " 0") {
			return line, nil
		}
	}
	return "", lines.Err()
}
