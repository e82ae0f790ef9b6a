package troupetest

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server/ats"

	"github.com/troupe-run/troupe/internal/bubble"
)

// The store's clock is one goroutine of the process. If it started within a bubble, time
// would stand still in the store.
func init() { ats.Register() }

// Test runs f in virtual time, in a bubble of testing/synctest. Clients that f connects end
// with it.
func Test(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	bubble.Test(t, f)
}
