package keeper

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// The bodies of frames that are no lines are JSON objects of these types. A request has a number, which its answer repeats: done, started, listed, adopted, or refused.
// All requests may be sent again on another connection: the second time they do nothing, and have the same answer.
type (
	// hello begins a connection: what its sender speaks. It and its answer may have members that the other side does not know, since no version counts yet.
	hello struct {
		Oldest  int           `json:"oldest"`
		Newest  int           `json:"newest"`
		Release string        `json:"release,omitempty"`
		PID     int           `json:"pid"`
		Client  string        `json:"client,omitempty"` // what no other client has
		Life    string        `json:"life,omitempty"`   // of the keeper that it has lost its connection to, if it comes again
		Number  uint64        `json:"number,omitempty"` // how many connections the client has made until now; 0 says nothing
		Keep    time.Duration `json:"keep,omitempty"`   // how long all is kept when it is gone without bye; 0 leaves that as it is, less keeps nothing
	}

	// welcome answers it with the version that counts from here on, which is the newest that both know.
	welcome struct {
		Version int    `json:"version"`
		Release string `json:"release,omitempty"`
		PID     int    `json:"pid"`
		Boot    string `json:"boot"`
		Life    string `json:"life"` // what no other keeper has, to tell another one at the same socket
	}

	// refused says which frame was not carried out, and why. Request is zero if it was no request.
	refused struct {
		Request uint64 `json:"request,omitempty"`
		Frame   string `json:"frame"`
		Code    string `json:"code"`
		Why     string `json:"why"`
	}

	done struct {
		Request uint64 `json:"request"`
	}

	// start has a token, by which one that is sent again is known.
	start struct {
		Request uint64 `json:"request"`
		Token   string `json:"token"`
		Spec    Spec   `json:"spec"`
	}

	started struct {
		Request    uint64   `json:"request"`
		Handle     uint64   `json:"handle"`
		PID        int      `json:"pid"`
		Unenforced []string `json:"unenforced,omitempty"`
	}

	// stop ends a process and its descendants. exited says when that is done.
	stop struct {
		Request uint64 `json:"request"`
		Handle  uint64 `json:"handle"`
		Reason  string `json:"reason,omitempty"`
	}

	list struct {
		Request uint64 `json:"request"`
		Memory  bool   `json:"memory,omitempty"` // with the memory of each
	}

	listed struct {
		Request uint64 `json:"request"`
		Kept    []Kept `json:"kept,omitempty"`
		More    bool   `json:"more,omitempty"` // another such frame follows
	}

	// adopt holds a process, and says the last of its lines that its sender has.
	adopt struct {
		Request uint64 `json:"request"`
		ID      string `json:"id"`
		Have    uint64 `json:"have"`
	}

	adopted struct {
		Request    uint64   `json:"request"`
		Handle     uint64   `json:"handle"`
		Kept       Kept     `json:"kept"`
		Pending    int      `json:"pending"` // what the lines count for that are not in its pipe yet
		Unenforced []string `json:"unenforced,omitempty"`
		Status     *Status  `json:"status,omitempty"` // how it ended, if it has
	}

	// bye says that its sender ends, and for how long its processes are kept.
	bye struct {
		Request uint64        `json:"request"`
		Keep    time.Duration `json:"keep"`
	}

	// forget says that nobody wants what a process has said. One that runs is ended. It has no answer.
	forget struct {
		Handle uint64 `json:"handle"`
	}

	exited struct {
		Handle uint64 `json:"handle"`
		Status Status `json:"status"`
	}

	// replaced says that another process has taken over. Nothing follows.
	replaced struct{}
)

// Codes of refused.
const (
	codeUnknown = "unknown" // a frame or a member that the other side does not know
	codeVersion = "version" // no version that both know
	codeOwner   = "owner"   // another process has taken over
	codeSpec    = "spec"    // a spec that no keeper can carry out
	codeExists  = "exists"  // the id is in use
	codeAbsent  = "absent"  // no process of that id or handle
	codeStart   = "start"   // the process could not be started
	codeConfine = "confine" // the system cannot confine it as is required
	codeEnding  = "ending"  // the keeper, or the process, is being ended
	codeMany    = "many"    // it has as many as it takes
)

// Errors of what a keeper is asked for.
var (
	// ErrExists reports that a keeper has a process of that id. Nothing was done.
	ErrExists = errors.New("keeper: the id is in use")

	// ErrAbsent reports that a keeper has no such process.
	ErrAbsent = errors.New("keeper: no such process")

	// ErrStart reports that a process could not be started; the text says why.
	ErrStart = errors.New("keeper: the process could not be started")

	// ErrConfine reports that the system cannot confine a process as is required; the text says in which way, and what the system answered. Nothing was started.
	ErrConfine = errors.New("keeper: the process cannot be confined")

	// ErrEnding reports that the keeper or the process is being ended. Nothing was done.
	ErrEnding = errors.New("keeper: it is being ended")

	// ErrMany reports that a keeper has as many processes as it takes. Nothing was done.
	ErrMany = errors.New("keeper: too many processes")

	// ErrVersion reports that this release and the keeper's have no version of the protocol in common.
	ErrVersion = errors.New("keeper: no common version")

	// ErrUnknown reports that the keeper does not know a frame or a member of one: it is of another release. Nothing was done.
	ErrUnknown = errors.New("keeper: not known to the other release")

	// ErrRuns reports that a keeper serves that socket already.
	ErrRuns = errors.New("keeper: another one serves the socket")

	// ErrReplaced reports that another process has taken over the keeper. The processes live on, and are that one's.
	ErrReplaced = errors.New("keeper: another process has taken over")
)

// refusals are the errors by code.
var refusals = map[string]error{
	codeUnknown: ErrUnknown, codeVersion: ErrVersion, codeOwner: ErrReplaced, codeSpec: ErrSpec, codeExists: ErrExists, codeAbsent: ErrAbsent,
	codeStart: ErrStart, codeConfine: ErrConfine, codeEnding: ErrEnding, codeMany: ErrMany,
}

// codeOf returns the code of an error that was wrapped, and its text without the words of that error.
func codeOf(err error) (code, why string) {
	for code, known := range refusals {
		if errors.Is(err, known) {
			return code, string(bytes.TrimPrefix([]byte(err.Error()), []byte(known.Error()+": ")))
		}
	}
	return codeStart, err.Error()
}

// error returns what was refused as an error.
func (r refused) error() error {
	known, ok := refusals[r.Code]
	if !ok {
		known = ErrUnknown
	}
	if known == ErrStart { // which says what was asked for
		return fmt.Errorf("%w: %s", known, r.Why)
	}
	return fmt.Errorf("%w: %s: %s", known, r.Frame, r.Why)
}

// decodeFirst reads a body that may be of any release.
func decodeFirst[T any](f frame) (v T, err error) {
	if err := json.Unmarshal(f.body, &v); err != nil {
		return v, fmt.Errorf("%v: %w", f.kind, err)
	}
	return v, nil
}

// decode reads a body strictly: a member that this release does not know is refused by its name, because whoever sent it relies on it.
func decode[T any](f frame) (v T, err error) {
	d := json.NewDecoder(bytes.NewReader(f.body))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		return v, fmt.Errorf("%v: %w", f.kind, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return v, fmt.Errorf("%v: something follows the object", f.kind)
	}
	return v, nil
}

// requestOf returns the number of a request whose body could not be read whole.
func requestOf(f frame) uint64 {
	var number struct{ Request uint64 }
	_ = json.Unmarshal(f.body, &number) // zero is no request
	return number.Request
}

// appendControl appends a frame with a JSON body. A body that is too long is left out, and said to be.
func appendControl(b []byte, k kind, v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err == nil && len(body) > maxControl {
		err = fmt.Errorf("%w: %v has %d bytes, of at most %d", ErrSpec, k, len(body), maxControl)
	}
	if err != nil {
		return b, err
	}
	return append(appendHeader(b, k, len(body)), body...), nil
}

// newToken returns a word that nobody else has.
func newToken() string { return rand.Text()[:20] }
