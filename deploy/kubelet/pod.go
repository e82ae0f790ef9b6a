//go:build linux

package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"time"

	core "k8s.io/api/core/v1"

	"github.com/troupe-run/troupe/bench/program"
)

// pod is a pod of the cluster.
type pod struct {
	cluster       *Cluster
	name, address string
	hash          string    // of its template
	workload      *workload // as it was when the pod was made

	deleted chan struct{} // is closed when the pod is to end
	gone    chan struct{} // is closed once it has

	// The cluster's goroutine has the rest.
	leaving  bool
	isReady  bool
	since    time.Time // it has been ready
	restarts int
}

func (p *pod) spec() *core.PodSpec        { return &p.workload.template.Spec }
func (p *pod) container() *core.Container { return &p.spec().Containers[0] }

func (p *pod) available() bool {
	return p.isReady && !p.leaving && time.Since(p.since) >= p.workload.minReady
}

// setReady notes what the readiness probe has found.
func (p *pod) setReady(ready bool) {
	p.cluster.do(func() {
		if p.isReady == ready {
			return
		}
		p.isReady, p.since = ready, time.Now()
		p.cluster.opts.Log(fmt.Sprintf("%s is ready: %v", p.name, ready))
		if ready && p.workload.minReady > 0 { // another look, once it is available
			time.AfterFunc(p.workload.minReady+time.Millisecond, func() { p.cluster.do(func() {}) })
		}
	})
}

// live runs the container over and over until the pod is deleted.
func (p *pod) live() {
	defer close(p.gone)
	defer p.cluster.do(func() { p.cluster.forget(p) })
	b, err := p.makeRoot()
	if err != nil {
		p.cluster.opts.Log(fmt.Sprintf("%s cannot be made: %v", p.name, err))
		<-p.deleted
		return
	}
	defer b.remove()
	for pause := p.cluster.opts.Restart; ; pause *= 2 {
		if p.runContainer(b) {
			return
		}
		p.cluster.do(func() { p.restarts++ })
		wait := time.NewTimer(pause)
		select {
		case <-p.deleted:
			wait.Stop()
			return
		case <-wait.C:
		}
	}
}

// runContainer runs the container once. It reports whether the pod was deleted meanwhile.
func (p *pod) runContainer(b *box) (deleted bool) {
	var log program.Log
	cmd := b.command(p.container().Args...)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		p.cluster.opts.Log(fmt.Sprintf("%s cannot be started: %v", p.name, err))
		return false
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // its code is in ProcessState
		close(exited)
	}()
	ctx, stop := context.WithCancel(context.Background())
	failed := make(chan string, 2)
	probes := make(chan struct{})
	go func() { defer close(probes); p.probe(ctx, failed) }()
	defer func() {
		stop()
		<-probes
		p.setReady(false)
	}()
	select {
	case <-exited:
		p.cluster.opts.Log(fmt.Sprintf("%s has ended by itself: %v\n%s", p.name, cmd.ProcessState, log.LastLines(5)))
		return false
	case which := <-failed:
		p.cluster.opts.Log(fmt.Sprintf("the %s probe of %s fails", which, p.name))
	case <-p.deleted:
		deleted = true
	}
	p.end(cmd, exited, &log)
	return deleted
}

// end ends the process of a container: SIGTERM, and SIGKILL once the grace is over.
func (p *pod) end(cmd *exec.Cmd, exited <-chan struct{}, log *program.Log) {
	grace := 30 * time.Second
	if s := p.spec().TerminationGracePeriodSeconds; s != nil {
		grace = time.Duration(*s) * time.Second
	}
	began := time.Now()
	_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended just now
	over := time.NewTimer(grace)
	defer over.Stop()
	killed := false
	select {
	case <-exited:
	case <-over.C:
		killed = true
		_ = cmd.Process.Kill()
		<-exited
	}
	e := Ended{p.name, p.container().Image, cmd.ProcessState.ExitCode(), killed, time.Since(began), grace, log.LastLines(20)}
	p.cluster.do(func() { p.cluster.ended = append(p.cluster.ended, e) })
}

// probe asks the container how it is until ctx ends: whether it has started, then whether it is ready and lives. It says in failed which probe has it ended.
func (p *pod) probe(ctx context.Context, failed chan<- string) {
	c := p.container()
	if c.StartupProbe != nil && !p.watch(ctx, c.StartupProbe, func(good bool) (enough bool) { return good }) {
		if ctx.Err() == nil {
			failed <- "startup"
		}
		return
	}
	lives := make(chan struct{})
	go func() {
		defer close(lives)
		if c.LivenessProbe != nil && !p.watch(ctx, c.LivenessProbe, func(bool) bool { return false }) && ctx.Err() == nil {
			failed <- "liveness"
		}
	}()
	if c.ReadinessProbe == nil {
		p.setReady(true)
	} else {
		bad := int32(0)
		p.look(ctx, c.ReadinessProbe, func(good bool) bool {
			if good {
				bad = 0
				p.setReady(true)
			} else if bad++; bad >= max(c.ReadinessProbe.FailureThreshold, 1) {
				p.setReady(false)
			}
			return false
		})
	}
	<-lives
}

// watch looks until it is enough, which it reports, or until the probe has failed as often in a row as it may.
func (p *pod) watch(ctx context.Context, probe *core.Probe, enough func(good bool) bool) (passed bool) {
	bad := int32(0)
	p.look(ctx, probe, func(good bool) bool {
		if good {
			bad = 0
		} else {
			bad++
		}
		passed = enough(good)
		return passed || bad >= max(probe.FailureThreshold, 1)
	})
	return passed
}

// look asks again and again until what was found is enough, or ctx ends.
func (p *pod) look(ctx context.Context, probe *core.Probe, enough func(good bool) bool) {
	again := time.NewTicker(time.Duration(max(probe.PeriodSeconds, 1)) * time.Second)
	defer again.Stop()
	for !enough(p.ask(ctx, probe)) {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
	}
}

// ask reports whether an HTTP probe is answered with a good status in time. Each has a connection of its own, as kubelet's have.
func (p *pod) ask(ctx context.Context, probe *core.Probe) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(max(probe.TimeoutSeconds, 1))*time.Second)
	defer cancel()
	port := probe.HTTPGet.Port.String()
	for _, named := range p.container().Ports {
		if named.Name == port {
			port = fmt.Sprint(named.ContainerPort)
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost:"+port+probe.HTTPGet.Path, nil)
	if err != nil {
		return false
	}
	r.Header.Set("User-Agent", "kube-probe/1.37")
	var d net.Dialer
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return d.DialContext(ctx, network, net.JoinHostPort(p.address, port))
	}}
	answer, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return false
	}
	defer func() { _ = answer.Body.Close() }()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode >= 200 && answer.StatusCode < 400
}

// environment is what the pod has for its container.
func (p *pod) environment() (all []string, err error) {
	for _, from := range p.container().EnvFrom {
		switch {
		case from.ConfigMapRef != nil && p.workload.configMaps[from.ConfigMapRef.Name] != nil:
			for name, value := range p.workload.configMaps[from.ConfigMapRef.Name] {
				all = append(all, from.Prefix+name+"="+value)
			}
		case from.SecretRef != nil && p.cluster.opts.Secrets[from.SecretRef.Name] != nil:
			for name, value := range p.cluster.opts.Secrets[from.SecretRef.Name] {
				all = append(all, from.Prefix+name+"="+string(value))
			}
		default:
			return nil, fmt.Errorf("kubelet: variables are from what is not there: %+v", from)
		}
	}
	for _, v := range p.container().Env {
		value := v.Value
		switch from := v.ValueFrom; {
		case from == nil:
		case from.FieldRef != nil && from.FieldRef.FieldPath == "metadata.name":
			value = p.name
		case from.FieldRef != nil && from.FieldRef.FieldPath == "status.podIP":
			value = p.address
		case from.SecretKeyRef != nil:
			data, has := p.cluster.opts.Secrets[from.SecretKeyRef.Name][from.SecretKeyRef.Key]
			if !has {
				return nil, fmt.Errorf("kubelet: %s is in a Secret that is not there: %+v", v.Name, from.SecretKeyRef)
			}
			value = string(data)
		default:
			return nil, fmt.Errorf("kubelet: a source of %s is not played", v.Name)
		}
		if strings.Contains(value, "$(") {
			return nil, errors.New("kubelet: variables in variables are not played")
		}
		all = append(all, v.Name+"="+p.onOwnAddress(value))
	}
	return all, nil
}

// onOwnAddress puts the pod's address before a port of all addresses.
func (p *pod) onOwnAddress(value string) string {
	if port, all := strings.CutPrefix(value, ":"); all && strings.Trim(port, "0123456789") == "" {
		return net.JoinHostPort(p.address, port)
	}
	return value
}
