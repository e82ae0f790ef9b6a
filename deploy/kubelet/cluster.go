//go:build linux

package kubelet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"

	"github.com/troupe-run/troupe/deploy/chart"
)

// Options are what a Cluster has from outside.
type Options struct {
	Dir       string                       // where roots and volumes are made
	Images    map[string]Image             // by the names that pods have for them
	Secrets   map[string]map[string][]byte // their data by their names
	Addresses []string                     // for pods, of 127.0.0.0/8: at most so many at a time

	// Endpoints is called with the addresses of the pods that are ready, Lag after that has changed, in order.
	Endpoints func(addresses []string)
	Lag       time.Duration

	// Restart is the time before a container that has ended is started again, doubled each time. 0 means 10 seconds, as in Kubernetes.
	Restart time.Duration
	// Log is told what happens; nil for nobody.
	Log func(what string)
}

// Image is what a container is made of.
type Image struct {
	Program     string   // the path of the program, which is the entrypoint
	Environment []string // as NAME=VALUE; a pod's own wins
}

// Status is a pod as it is at a moment.
type Status struct {
	Name, Image, Address string
	Ready, Available     bool // it has been ready for long enough
	Leaving              bool // it was deleted, and has not ended
	Restarts             int
}

// Ended is a container that Kubernetes has ended.
type Ended struct {
	Pod, Image  string
	Code        int // its exit code; -1 if a signal ended it
	Killed      bool
	Took, Grace time.Duration
	Log         string // the end of what it wrote
}

// Cluster is one workload with its pods. Make one with New.
type Cluster struct {
	opts Options

	work    chan func() // done by the goroutine that has the state below
	looks   chan func() // the same for what changes nothing
	closing chan struct{}
	routes  chan route
	over    sync.WaitGroup // the goroutines of both

	workload *workload
	pods     []*pod
	free     []string
	ready    []string        // as Endpoints will know it
	routed   int             // changes of ready that Endpoints does not know yet
	claims   map[string]bool // volumes of claims that a pod has
	ended    []Ended
	changed  chan struct{} // is closed at the next change
}

// workload is what is wanted.
type workload struct {
	name, kind      string
	template        core.PodTemplateSpec
	hash            string
	replicas        int
	surge, less     int // how many pods more, and fewer, than wanted there may be
	minReady        time.Duration
	claim           string // the name of the volume of a claim, "" without one
	waitsForHealthy bool   // a StatefulSet that does not replace a pod that is not ready
	configMaps      map[string]map[string]string
}

// route is a change of the endpoints, and when it is to be known.
type route struct {
	at        time.Time
	addresses []string
}

// New returns a cluster without a workload. The caller closes it.
func New(o Options) *Cluster {
	if o.Restart == 0 {
		o.Restart = 10 * time.Second
	}
	if o.Log == nil {
		o.Log = func(string) {}
	}
	c := &Cluster{
		opts: o, work: make(chan func()), looks: make(chan func()), closing: make(chan struct{}), routes: make(chan route, 1000),
		free: slices.Clone(o.Addresses), claims: map[string]bool{}, changed: make(chan struct{}),
	}
	c.over.Go(c.reconcileAfterEach)
	c.over.Go(c.route)
	return c
}

// reconcileAfterEach does what others send, and brings the pods nearer to what is wanted after each.
func (c *Cluster) reconcileAfterEach() {
	for {
		select {
		case <-c.closing:
			return
		case look := <-c.looks:
			look()
		case do := <-c.work:
			do()
			c.reconcile()
			close(c.changed)
			c.changed = make(chan struct{})
		}
	}
}

// do has the goroutine of the state do something, and does not wait for it. After Close nothing is done.
func (c *Cluster) do(what func()) {
	select {
	case c.work <- what:
	case <-c.closing:
	}
}

// doNow is do, and waits.
func (c *Cluster) doNow(what func()) error { return c.wait(c.work, what) }

// look is doNow for what changes nothing.
func (c *Cluster) look(at func()) error { return c.wait(c.looks, at) }

func (c *Cluster) wait(by chan func(), what func()) error {
	done := make(chan struct{})
	select {
	case by <- func() { defer close(done); what() }:
	case <-c.closing:
		return errClosed
	}
	<-done // what was taken is done
	return nil
}

var errClosed = errors.New("kubelet: the cluster is closed")

// route tells Endpoints of changes when they are due.
func (c *Cluster) route() {
	for {
		select {
		case <-c.closing:
			return
		case r := <-c.routes:
			wait := time.NewTimer(time.Until(r.at))
			select {
			case <-c.closing:
				wait.Stop()
				return
			case <-wait.C:
			}
			if c.opts.Endpoints != nil {
				c.opts.Endpoints(r.addresses)
			}
			c.do(func() { c.routed-- })
		}
	}
}

// Apply has the cluster run what a chart has rendered: a first time, or in place of what it ran.
func (c *Cluster) Apply(r *chart.Rendered) error {
	w, err := workloadOf(r)
	if err != nil {
		return err
	}
	return c.doNow(func() {
		c.opts.Log(fmt.Sprintf("%s %s is to have %d pods of %s", w.kind, w.name, w.replicas, w.template.Spec.Containers[0].Image))
		c.workload = w
	})
}

func workloadOf(r *chart.Rendered) (*workload, error) {
	w := &workload{configMaps: map[string]map[string]string{}}
	for _, m := range chart.All[*core.ConfigMap](r) {
		w.configMaps[m.Name] = m.Data
	}
	deployments, sets := chart.All[*apps.Deployment](r), chart.All[*apps.StatefulSet](r)
	switch {
	case len(deployments) == 1 && len(sets) == 0:
		d := deployments[0]
		w.kind, w.name, w.template, w.minReady = "Deployment", d.Name, d.Spec.Template, time.Duration(d.Spec.MinReadySeconds)*time.Second
		w.replicas = 1
		if d.Spec.Replicas != nil {
			w.replicas = int(*d.Spec.Replicas)
		}
		u := d.Spec.Strategy.RollingUpdate
		if u == nil || u.MaxSurge.StrVal+u.MaxUnavailable.StrVal != "" {
			return nil, errors.New("kubelet: a Deployment is played whose strategy names numbers alone")
		}
		w.surge, w.less = u.MaxSurge.IntValue(), u.MaxUnavailable.IntValue()
	case len(deployments) == 0 && len(sets) == 1:
		s := sets[0]
		w.kind, w.name, w.template, w.minReady = "StatefulSet", s.Name, s.Spec.Template, time.Duration(s.Spec.MinReadySeconds)*time.Second
		w.replicas, w.waitsForHealthy = int(*s.Spec.Replicas), s.Spec.PodManagementPolicy != apps.ParallelPodManagement
		if w.replicas > 1 {
			return nil, errors.New("kubelet: a StatefulSet is played that has one pod")
		}
		for _, claim := range s.Spec.VolumeClaimTemplates {
			w.claim = claim.Name
		}
	default:
		return nil, fmt.Errorf("kubelet: there are %d Deployments and %d StatefulSets: want one workload", len(deployments), len(sets))
	}
	text, err := json.Marshal(w.template)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	w.hash = hex.EncodeToString(sum[:])[:10]
	return w, nil
}

// Scale changes how many pods there are to be.
func (c *Cluster) Scale(replicas int) error {
	return c.doNow(func() {
		c.opts.Log(fmt.Sprintf("%d pods are wanted", replicas))
		scaled := *c.workload
		scaled.replicas = replicas
		c.workload = &scaled
	})
}

// Pods returns the pods there are.
func (c *Cluster) Pods() (all []Status) {
	_ = c.look(func() { all = c.statuses() })
	return all
}

func (c *Cluster) statuses() (all []Status) {
	for _, p := range c.pods {
		all = append(all, Status{p.name, p.container().Image, p.address, p.isReady, p.available(), p.leaving, p.restarts})
	}
	return all
}

// Ended returns the containers that were ended so far, in order.
func (c *Cluster) Ended() (all []Ended) {
	_ = c.look(func() { all = slices.Clone(c.ended) })
	return all
}

// Until waits until the pods are as a test wants them. what says what that is, for the error.
func (c *Cluster) Until(ctx context.Context, what string, are func(pods []Status) bool) error {
	return c.until(ctx, what, func() bool { return are(c.statuses()) })
}

// UntilSettled waits until all pods are there that are wanted, and no others, all are available, and Endpoints knows it.
func (c *Cluster) UntilSettled(ctx context.Context) error {
	return c.until(ctx, "settled", func() bool {
		if len(c.pods) != c.workload.replicas || c.routed > 0 {
			return false
		}
		for _, p := range c.pods {
			if p.leaving || p.hash != c.workload.hash || !p.available() {
				return false
			}
		}
		return true
	})
}

func (c *Cluster) until(ctx context.Context, what string, is func() bool) error {
	for {
		var yes bool
		var changed chan struct{}
		var pods []Status
		if err := c.look(func() { yes, changed, pods = is(), c.changed, c.statuses() }); err != nil || yes {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("kubelet: the pods are not %s: %w; they are %+v", what, context.Cause(ctx), pods)
		case <-changed:
		}
	}
}

// Close ends all pods as Kubernetes does, and the cluster. A second Close does nothing.
func (c *Cluster) Close() {
	var pods []*pod
	if err := c.doNow(func() {
		if c.workload != nil {
			none := *c.workload
			none.replicas = 0
			c.workload = &none
		}
		pods = slices.Clone(c.pods)
		for _, p := range pods {
			c.remove(p)
		}
	}); err != nil {
		return
	}
	for _, p := range pods {
		<-p.gone
	}
	close(c.closing)
	c.over.Wait()
}

// reconcile brings the pods a step nearer to what is wanted.
func (c *Cluster) reconcile() {
	if c.workload == nil {
		return
	}
	switch c.workload.kind {
	case "Deployment":
		c.reconcileDeployment()
	case "StatefulSet":
		c.reconcileStatefulSet()
	}
	var ready []string
	for _, p := range c.pods {
		if p.isReady && !p.leaving {
			ready = append(ready, p.address)
		}
	}
	slices.Sort(ready)
	if !slices.Equal(ready, c.ready) {
		c.ready = ready
		c.routed++
		c.routes <- route{time.Now().Add(c.opts.Lag), ready}
	}
}

func (c *Cluster) reconcileDeployment() {
	w := c.workload
	var current, old []*pod
	available := 0
	for _, p := range c.pods {
		switch {
		case p.leaving:
			continue
		case p.hash == w.hash:
			current = append(current, p)
		default:
			old = append(old, p)
		}
		if p.available() {
			available++
		}
	}
	for len(current)+len(old) < w.replicas+w.surge && len(current) < w.replicas {
		p := c.create(fmt.Sprintf("%s-%s-%s", w.name, w.hash, letters(5)))
		if p == nil {
			return
		}
		current = append(current, p)
	}
	// Those that serve nobody go first.
	unavailableFirst := func(a, b *pod) int {
		switch {
		case a.available() == b.available():
			return 0
		case b.available():
			return -1
		}
		return 1
	}
	slices.SortStableFunc(current, unavailableFirst)
	for len(current) > w.replicas {
		if current[0].available() {
			available--
		}
		c.remove(current[0])
		current = current[1:]
	}
	slices.SortStableFunc(old, unavailableFirst)
	for _, p := range old {
		switch {
		case !p.available():
			c.remove(p)
		case available > w.replicas-w.less:
			available--
			c.remove(p)
		}
	}
}

func (c *Cluster) reconcileStatefulSet() {
	w := c.workload
	switch {
	case len(c.pods) == 0 && w.replicas == 1:
		c.create(w.name + "-0")
	case len(c.pods) > 0 && !c.pods[0].leaving && (w.replicas == 0 || c.pods[0].hash != w.hash && (c.pods[0].isReady || !w.waitsForHealthy)):
		c.remove(c.pods[0])
	}
}

// create makes a pod, unless there is no address left.
func (c *Cluster) create(name string) *pod {
	if len(c.free) == 0 {
		c.opts.Log("there is no address for another pod")
		return nil
	}
	p := &pod{cluster: c, name: name, hash: c.workload.hash, workload: c.workload, address: c.free[0], deleted: make(chan struct{}), gone: make(chan struct{})}
	c.free = c.free[1:]
	c.pods = append(c.pods, p)
	c.opts.Log(fmt.Sprintf("%s begins at %s, with %s", name, p.address, p.container().Image))
	go p.live()
	return p
}

// remove has a pod end.
func (c *Cluster) remove(p *pod) {
	if p.leaving {
		return
	}
	p.leaving = true
	c.opts.Log(p.name + " is to end")
	close(p.deleted)
}

// forget drops a pod that has ended.
func (c *Cluster) forget(p *pod) {
	c.pods = slices.DeleteFunc(c.pods, func(o *pod) bool { return o == p })
	c.free = append(c.free, p.address)
	c.opts.Log(p.name + " is gone")
}

// letters are n random ones, as Kubernetes puts them behind the names of pods.
func letters(n int) string {
	const from = "bcdfghjklmnpqrstvwxz2456789"
	var b strings.Builder
	for range n {
		b.WriteByte(from[rand.IntN(len(from))])
	}
	return b.String()
}
