package loadgen

import (
	"context"
	"sync"
)

// disturber is who disturbs the clients of a run.
type disturber interface {
	prepare(ctx context.Context) error
	disturb(ctx context.Context, ready func()) error // until ctx ends; it calls ready when it has begun
	tell(*Beside)                                    // what it came to
	end(ctx context.Context)
}

// beside has clients echo twice, alone and beside who disturbs them. The report is that of the second time, with the errors of both.
func beside(ctx context.Context, o *Options, l *ledger, d disturber) error {
	quiet := newLedger(o)
	r := newRun(o, scenarios["echo"], quiet)
	defer r.clients.close()
	if err := r.prepare(ctx); err != nil {
		return err
	}
	defer r.clients.end(ctx)
	if err := d.prepare(ctx); err != nil {
		return err
	}
	defer d.end(ctx)
	o.tell("alone")
	if err := r.work(ctx); err != nil {
		return err
	}
	o.tell("disturbed")
	r.again(l)
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
	err := r.work(ctx)
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
	d.tell(p.Beside)
	return nil
}
