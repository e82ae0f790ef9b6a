package greed

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

// Names of attacks that are no part of those at once.
const (
	AllAtOnce = "all"        // all attacks of Names at the same time, by the same clients
	BadTokens = "bad-tokens" // needs a server that takes the tokens of TokenIssuer
)

// Outcomes count how requests ended: the HTTP status and, if there was one, the code of the
// JSON-RPC error behind it ("200 -32600"), "closed" for a connection that ended without a response,
// "dial" where none was made, and "open" for one that was made and sent no request.
type Outcomes map[string]int

// Result is what became of an attack.
type Result struct {
	Outcomes Outcomes `json:"outcomes"`
	// Limited reports whether the attack has met one of its limits, or has none that it must meet.
	Limited bool `json:"limited"`
}

// Names returns the attacks in the order in which they are made.
func Names() (names []string) {
	for _, a := range attacks {
		names = append(names, a.name)
	}
	return names
}

// Run has so many greedy clients make an attack on the server at addr for a time, and on for at
// most patience until it has met a limit, or among all at once has had an answer. It calls ready
// when each of their goroutines has begun.
func Run(ctx context.Context, addr, name string, clients int, duration time.Duration, ready func()) (map[string]Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	made, network, share := attacks, 255, 8
	if name != AllAtOnce {
		all := append(slices.Clone(attacks), badTokens)
		n := slices.IndexFunc(all, func(a attack) bool { return a.name == name })
		if n < 0 {
			return nil, fmt.Errorf("no attack %q", name)
		}
		if made, network, share = all[n:n+1], 1, 1; all[n].apart {
			network = 2 + n
		}
	}
	var begun, ended sync.WaitGroup
	principals := make(map[string][]*principal)
	for _, a := range made {
		for n := range clients {
			p := newPrincipal(ctx, addr, network, n)
			principals[a.name] = append(principals[a.name], p)
			for worker := range max(1, a.workers/share) {
				begun.Add(1)
				ended.Go(func() { a.work(p, worker, begun.Done) })
			}
		}
	}
	begun.Wait()
	ready()
	client.Sleep(ctx, duration)
	enough := func(a attack) bool {
		o := sumOutcomes(principals[a.name])
		return name == AllAtOnce && len(o) > 0 || a.isLimited(o, clients)
	}
	for end := time.Now().Add(patience); time.Now().Before(end) && !allOf(made, enough) && client.Sleep(ctx, 20*time.Millisecond); {
	}
	cancel()
	ended.Wait()
	results := make(map[string]Result)
	for _, a := range made {
		o := sumOutcomes(principals[a.name])
		results[a.name] = Result{o, a.isLimited(o, clients)}
		for _, p := range principals[a.name] {
			p.http.CloseIdleConnections()
		}
	}
	return results, nil
}

func allOf(made []attack, f func(attack) bool) bool {
	return !slices.ContainsFunc(made, func(a attack) bool { return !f(a) })
}

// sumOutcomes adds up the outcomes of principals so far.
func sumOutcomes(principals []*principal) Outcomes {
	all := make(Outcomes)
	for _, p := range principals {
		p.mu.Lock()
		for what, n := range maps.All(p.outcomes) {
			all[what] += n
		}
		p.mu.Unlock()
	}
	return all
}
