package loadgen

import (
	"context"
	"sync"
)

// disturber is who disturbs the clients of a run.
type disturber interface {
	prepare(ctx context.Context) error
	disturb(ctx context.Context, ready func()) error // until ctx ends; it calls ready when it has begun
	addResult(*Beside)                               // what it came to
	end(ctx context.Context)
}

// runBeside has clients echo twice, alone and beside who disturbs them. The report is that of the
// second time, with the errors of both.
func runBeside(ctx context.Context, o *Options, l *ledger, d disturber) error {
	quiet := newLedger(o)
	r := newLoop(o, &echoing, quiet)
	defer r.clients.closeConnections()
	if err := r.beginClients(ctx); err != nil {
		return err
	}
	defer r.clients.endSessions(ctx)
	if err := d.prepare(ctx); err != nil {
		return err
	}
	defer d.end(ctx)
	o.printProgress("alone")
	if err := r.runOnce(ctx); err != nil {
		return err
	}
	o.printProgress("disturbed")
	r.resetFor(l)
	loud, stop := context.WithCancel(ctx)
	defer stop()
	var group sync.WaitGroup
	var problem error
	began := make(chan struct{})
	ready := sync.OnceFunc(func() { close(began) })
	group.Go(func() {
		defer ready()
		problem = d.disturb(loud, ready)
	})
	<-began
	err := r.runOnce(ctx)
	stop()
	group.Wait()
	if err == nil {
		err = problem
	}
	if err != nil {
		return err
	}
	alone, p := quiet.report, l.report
	for kind, n := range alone.Errors {
		if p.Errors[kind] += n; p.Examples[kind] == "" {
			p.Examples[kind] = alone.Examples[kind]
		}
	}
	p.Beside = p.BesideOf(alone)
	d.addResult(p.Beside)
	return nil
}
