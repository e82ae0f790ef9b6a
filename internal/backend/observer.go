package backend

import (
	"time"

	"github.com/troupe-run/troupe/internal/backend/pool"
)

// An Observer counts what becomes of instances and of calls. Its methods must not block.
type Observer interface {
	// Started counts a start, how long it took, and why the instance cannot serve, "" if it can.
	Started(backend string, failed pool.Reason, took time.Duration)
	// Adopted counts an instance of an earlier process that goes on here.
	Adopted(backend string)
	// Ended counts the end of an instance that could serve. [pool.Exited] is one that nobody has ended.
	Ended(backend string, reason pool.Reason)
	// Waited counts a call that got an instance after a time, or none, and why. Who gives up before is not counted.
	Waited(backend string, took time.Duration, refused pool.Reason)
}

// noObserver counts nothing.
type noObserver struct{}

func (noObserver) Started(string, pool.Reason, time.Duration) {}
func (noObserver) Adopted(string)                             {}
func (noObserver) Ended(string, pool.Reason)                  {}
func (noObserver) Waited(string, time.Duration, pool.Reason)  {}
