package hosting

import (
	"time"

	"github.com/troupe-run/troupe/internal/backend"
	"github.com/troupe-run/troupe/internal/backend/pool"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/telemetry"
)

// An Observer has metrics say what becomes of instances, and the log which calls the limit of them has refused.
type Observer struct {
	Tel  *telemetry.Instruments
	Hits *limits.Log
}

var _ backend.Observer = Observer{}

// Started implements [backend.Observer].
func (o Observer) Started(name string, failed pool.Reason, took time.Duration) {
	o.Tel.BackendStarted(name, string(failed), took)
}

// Adopted implements [backend.Observer].
func (o Observer) Adopted(name string) { o.Tel.BackendAdopted(name) }

// Ended implements [backend.Observer].
func (o Observer) Ended(name string, reason pool.Reason) { o.Tel.BackendEnded(name, string(reason)) }

// Waited implements [backend.Observer].
func (o Observer) Waited(name string, took time.Duration, refused pool.Reason) {
	o.Tel.BackendWaited(name, string(refused), took)
	if refused == pool.NodeFull {
		o.Hits.Refused(limits.MaxInstances.Row)
	}
}
