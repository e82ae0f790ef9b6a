package loadgen

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	// DefaultRevision is the newest revision with sessions.
	DefaultRevision = "2025-11-25"
	// Stateless is the revision whose requests need no session.
	Stateless = "2026-07-28"
)

// revisions are what the generator speaks over streamable HTTP.
var revisions = []string{"2025-03-26", "2025-06-18", DefaultRevision, Stateless}

// MostClients bounds the clients of a run, and so the operations that are under way at a time.
const MostClients = 10_000

// Options say what to do to which server. The zero value of a field is its default.
type Options struct {
	URL      string // of the endpoint, http or https
	Scenario string // "echo" by default; see [Scenarios]
	Revision string // [DefaultRevision] by default; a client has a session with it, unless it is [Stateless]

	// Clients is how many there are, each with a connection of its own and one operation at a time: 32 by default. With a Rate it bounds the
	// operations that are under way.
	Clients int
	// Rate is how many operations begin per second, whether those before have ended or not (an open loop). Latencies count from
	// when an operation was to begin: what waits because the server is slow counts. 0 is a closed loop: each client begins the next operation
	// when it has the answer to the last.
	Rate float64
	// Duration is how long operations count, 10 s by default, and WarmUp how long they run before that and do not, 1 s by default. A negative
	// WarmUp is none.
	Duration, WarmUp time.Duration
	// Timeout bounds an operation: 30 s by default.
	Timeout time.Duration

	Tool      string // that the scenario calls, if the server has it under another name
	Arguments string // a JSON object for that tool, instead of the scenario's own
	Size      int    // bytes of the text that echo sends; 64 by default
	Header    http.Header

	// PIDs are processes of the server on this machine, whose processor time and memory are in the report.
	PIDs []int

	// Progress gets a line every two seconds; nil is nobody.
	Progress io.Writer
	// Dial makes connections; nil is a net.Dialer.
	Dial func(network, address string) (net.Conn, error)
}

// settle fills in the defaults, and says what is wrong.
func (o *Options) settle() error {
	o.Scenario, o.Revision = cmp.Or(o.Scenario, "echo"), cmp.Or(o.Revision, DefaultRevision)
	o.Clients, o.Size = cmp.Or(o.Clients, 32), cmp.Or(o.Size, 64)
	o.Duration, o.Timeout, o.WarmUp = cmp.Or(o.Duration, 10*time.Second), cmp.Or(o.Timeout, 30*time.Second), max(0, cmp.Or(o.WarmUp, time.Second))
	u, err := url.Parse(o.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("%q is no URL of an endpoint: want something like http://127.0.0.1:8080/mcp", o.URL)
	case scenarios[o.Scenario] == nil:
		return fmt.Errorf("no scenario is called %q: there are %s", o.Scenario, strings.Join(slices.Sorted(maps.Keys(scenarios)), ", "))
	case !slices.Contains(revisions, o.Revision):
		return fmt.Errorf("revision is %q: want one of %s", o.Revision, strings.Join(revisions, ", "))
	case o.Clients < 1 || o.Clients > MostClients:
		return fmt.Errorf("clients are %d: want 1 to %d", o.Clients, MostClients)
	case !(o.Rate >= 0 && o.Rate <= 1e6):
		return fmt.Errorf("rate is %v: want 0, which is a closed loop, to 1,000,000", o.Rate)
	case o.Duration < 0 || o.Timeout < 0:
		return errors.New("duration and timeout must be positive")
	case o.Size < 0 || o.Size > 64<<20:
		return fmt.Errorf("size is %d: want at most 64 MiB", o.Size)
	}
	return nil
}

func (o *Options) stateless() bool { return o.Revision == Stateless }
