package loadgen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
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

// MostCount bounds the sessions or streams of a run that counts them.
const MostCount = 100_000

// Options say what to do to which server. The zero value of a field is its default.
type Options struct {
	URL string // of the endpoint, http or https
	// Others are further endpoints of the same server, such as those of other nodes: each client
	// sends each request to the next of all.
	Others   []string
	Scenario string // "echo" by default; see [Scenarios]
	Revision string // [DefaultRevision] by default; a client has a session with it, unless it is [Stateless]

	// Clients is how many there are, each with a connection of its own and one operation at a time:
	// 32 by default. With a Rate it bounds the operations that are under way.
	Clients int
	// Rate is how many operations begin per second, whether those before have ended or not (an open
	// loop). Latencies count from when an operation was to begin: what waits because the server is
	// slow counts. 0 is a closed loop: each client begins the next operation when it has the answer
	// to the last.
	Rate float64
	// Duration is how long operations count, 10 s by default, and WarmUp how long they run before
	// that and do not, 1 s by default. A negative WarmUp is none.
	Duration, WarmUp time.Duration
	// Timeout bounds an operation: 30 s by default.
	Timeout time.Duration

	// Count is how many sessions, calls or streams there are in the scenarios that keep many:
	// 10,000 sessions in hold, 1,000 in parked, streams, resume and fanout by default. These
	// scenarios have no use for Clients, but for hold and parked, which have so many connections.
	Count int
	// Keep leaves the sessions of hold to the server, which keeps them as long as it likes.
	Keep bool
	// From is the local address of the clients; "" is any. Servers tell anonymous clients apart by
	// it.
	From string

	Tool      string // that the scenario calls, if the server has it under another name
	Arguments string // a JSON object for that tool, instead of the scenario's own
	Size      int    // bytes of the text that echo sends; 64 by default
	Header    http.Header

	// PIDs are processes of the server on this machine, whose processor time and memory are in the
	// report.
	PIDs []int
	// Settle is called before hold, parked and streams look at the memory of the server, so that it
	// can collect its garbage first; nil leaves it alone.
	Settle func(context.Context) error
	// Meanwhile is called while the sessions of hold, the calls of parked, or all streams of
	// streams, are there, once the memory has been looked at; nil does nothing. A loop calls it when
	// it begins, and lasts until it returns in place of its Duration.
	Meanwhile func(context.Context) error

	// Progress gets a line every two seconds; nil is nobody.
	Progress io.Writer
	// Through is what the requests of each client go through; nil is nothing.
	Through func(http.RoundTripper) http.RoundTripper
	// Dial makes connections from a local address, "" for any; nil is a net.Dialer.
	Dial func(from, address string) (net.Conn, error)
}

// fillDefaults fills in the defaults that all scenarios share.
func (o *Options) fillDefaults() {
	o.Scenario, o.Revision = cmp.Or(o.Scenario, "echo"), cmp.Or(o.Revision, DefaultRevision)
	o.Clients, o.Size = cmp.Or(o.Clients, 32), cmp.Or(o.Size, 64)
	o.Duration, o.Timeout, o.WarmUp = cmp.Or(o.Duration, 10*time.Second), cmp.Or(o.Timeout, 30*time.Second), max(0, cmp.Or(o.WarmUp, time.Second))
}

// check says what is wrong with options whatever the scenario.
func (o *Options) check() error {
	for _, text := range o.endpoints() {
		if u, err := url.Parse(text); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("%q is no URL of an endpoint: want something like http://127.0.0.1:8080/mcp", text)
		}
	}
	switch {
	case !slices.Contains(revisions, o.Revision):
		return fmt.Errorf("revision is %q: want one of %s", o.Revision, strings.Join(revisions, ", "))
	case o.From != "" && net.ParseIP(o.From) == nil:
		return fmt.Errorf("%q is no address of this machine", o.From)
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

// endpoints are all URLs of the server.
func (o *Options) endpoints() []string { return append([]string{o.URL}, o.Others...) }

func (o *Options) stateless() bool { return o.Revision == Stateless }

// atRest has the server settle, and returns what it has used then.
func (o *Options) atRest(ctx context.Context) (usage, error) {
	if o.Settle != nil {
		if err := o.Settle(ctx); err != nil {
			return usage{}, err
		}
	}
	return usageOf(o.PIDs)
}

// callMeanwhile does what is to be done while everything is there.
func (o *Options) callMeanwhile(ctx context.Context) error {
	if o.Meanwhile == nil {
		return nil
	}
	return o.Meanwhile(ctx)
}

// sendsText reports whether the clients send texts of the size that was chosen.
func (o *Options) sendsText() bool {
	return slices.Contains([]string{"echo", "mixed", "slow"}, o.Scenario)
}

// printProgress tells how far a run is.
func (o *Options) printProgress(format string, args ...any) {
	if o.Progress != nil {
		fmt.Fprintf(o.Progress, o.Scenario+": "+format+"\n", args...)
	}
}

// keepPrinting tells every now and then how far a run is, until stop is called.
func (o *Options) keepPrinting(how func() string) (stop func()) {
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		every := time.NewTicker(tellEvery)
		defer every.Stop()
		for {
			select {
			case <-over:
				return
			case <-every.C:
				o.printProgress("%s", how())
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(over)
		<-ended
	})
}
