package greed

import (
	"context"
	"slices"
	"sync"
	"time"
)

// All are the attacks, in the order in which they are made.
var All = []Attack{
	bodies, chunked, garbage, largeHeaders, slowHeaders, connections,
	resumes, largeCalls, values, inFlight, unread, shortStreams,
	inputs, parked, states, questions, answers,
	initializeLarge, initializeSmall, initializeDelete, unknownSessions,
	batches, levels, subscriptions, notifications, requests, scrapes,
	standalones, listens, bound,
}

// Find returns the attack with a name, and the network of its principals.
func Find(name string) (a Attack, network int, ok bool) {
	all := append(slices.Clone(All), herd, badTokens)
	n := slices.IndexFunc(all, func(a Attack) bool { return a.Name == name })
	if n < 0 {
		return Attack{}, 0, false
	}
	if all[n].Apart {
		return all[n], 2 + n, true
	}
	return all[n], 1, true
}

// Run has so many greedy principals make the attacks, all at once, until ctx is done, and returns
// what became of their requests, by attack. It calls ready when each of their goroutines has
// begun, and done when each attack has come as far as enough says. share is the part of its usual goroutines that
// each attack has, at least one. Principals of runs with different networks, 0 to 255, have different addresses.
func Run(ctx context.Context, addr string, network, greedy int, share float64, enough func(Attack, Outcomes) bool, ready, done func(), attacks ...Attack) map[string]Outcomes {
	var begun, ended sync.WaitGroup
	start := make(chan struct{})
	all := make(map[string][]*Principal)
	for _, a := range attacks {
		for n := range greedy {
			p := newPrincipal(ctx, addr, network, n)
			all[a.Name] = append(all[a.Name], p)
			for worker := range max(1, int(float64(a.workers)*share)) {
				begun.Add(1)
				ended.Go(func() { a.work(p, worker, begun.Done, start) })
			}
		}
	}
	begun.Wait()
	close(start)
	ready()
	ended.Go(func() {
		each := time.NewTicker(20 * time.Millisecond)
		defer each.Stop()
		for slices.ContainsFunc(attacks, func(a Attack) bool { return !enough(a, sum(all[a.Name])) }) {
			select {
			case <-ctx.Done():
				return
			case <-each.C:
			}
		}
		done()
	})
	ended.Wait()
	outcomes := make(map[string]Outcomes)
	for name, principals := range all {
		outcomes[name] = sum(principals)
		for _, p := range principals {
			p.close()
		}
	}
	return outcomes
}

// sum adds up the outcomes of principals so far.
func sum(principals []*Principal) Outcomes {
	all := make(Outcomes)
	for _, p := range principals {
		p.mu.Lock()
		for what, n := range p.outcomes {
			all[what] += n
		}
		p.mu.Unlock()
	}
	return all
}
