package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupe-run/troupe/internal/store"
)

// The error codes of JetStream that cause tells apart.
const (
	codeWrongLast         = 10071 // the guarded subject has another revision
	codeWrongLastInFlight = 10164 // the same, or a write before it is undecided
	codeNoMessage         = 10037
	codeStoreFailed       = 10077
	codeAccountResources  = 10002
	codeInsufficient      = 10023
	codeMemoryExceeded    = 10028
	codeStorageExceeded   = 10047
	codeMessageTooBig     = 10054

	codeSequenceNotFound    = 10043
	codeDeleteFailed        = 10057
	codeNoStream            = 10059
	codeNoReplicas          = 10074
	codeOverlap             = 10065
	codeConsumer            = 10012 // it cannot be changed
	codeMaxAckPending       = 10121 // a consumer asks for more than the servers or the account allow
	codeStreamOffline       = 10118
	codeStreamOfflineReason = 10194
)

// codeBadRequest is the code of answers that say that what was asked for is not allowed, beside that of the error.
const codeBadRequest = 400

// apiError is the error object of JetStream's answers.
type apiError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *apiError) Error() string {
	return e.Description + " (" + strconv.Itoa(e.ErrCode) + ")"
}

// cause maps a JetStream error to ours. conflict is the error of a lost
// compare-and-set: ErrConflict or ErrFenced.
func (e *apiError) cause(conflict error) error {
	sentinel := store.ErrUnavailable
	switch e.ErrCode {
	case codeWrongLast:
		sentinel = conflict
	case codeWrongLastInFlight:
		sentinel = store.ErrRetry
	case codeNoMessage, codeSequenceNotFound:
		sentinel = store.ErrNotFound
	case codeDeleteFailed:
		// One code for all failures of a deletion.
		if strings.Contains(e.Description, "no message found") {
			sentinel = store.ErrNotFound
		}
	case codeAccountResources, codeInsufficient, codeMemoryExceeded, codeStorageExceeded:
		sentinel = store.ErrFull
	case codeMessageTooBig:
		sentinel = store.ErrTooBig
	case codeStoreFailed:
		// One code for all refusals of the store; only the limits say "exceeded".
		if strings.Contains(e.Description, "exceeded") {
			sentinel = store.ErrFull
		}
	}
	return fmt.Errorf("%w: %w", sentinel, e)
}

// parseAck reads the answer to a stored message: {"stream":"x","seq":12}.
func parseAck(data []byte, conflict error) (seq uint64, err error) {
	const start = `{"stream":"`
	if bytes.HasPrefix(data, []byte(start)) {
		rest := data[len(start):]
		const field = `"seq":`
		if i := bytes.Index(rest, []byte(field)); i >= 0 {
			for _, c := range rest[i+len(field):] {
				if c < '0' || c > '9' {
					break
				}
				seq = seq*10 + uint64(c-'0')
			}
			if seq > 0 {
				return seq, nil
			}
		}
	}
	var ack struct {
		Error *apiError `json:"error"`
		Seq   uint64    `json:"seq"`
	}
	if err := json.Unmarshal(data, &ack); err != nil {
		return 0, fmt.Errorf("%w: acknowledgement: %w", store.ErrUnavailable, err)
	}
	if ack.Error != nil {
		return 0, ack.Error.cause(conflict)
	}
	if ack.Seq == 0 {
		return 0, fmt.Errorf("%w: acknowledgement without a sequence", store.ErrUnavailable)
	}
	return ack.Seq, nil
}

// isOffline reports whether the server has a stream that it cannot serve, because
// its description needs a feature that this release of the server does not know.
func isOffline(err error) bool {
	var e *jetstream.APIError
	return errors.As(err, &e) && (e.ErrorCode == codeStreamOffline || e.ErrorCode == codeStreamOfflineReason)
}

// directFault returns why the answer to a direct get has no message: ErrNotFound if there is none, or it vanished meanwhile.
func directFault(m *nats.Msg) error {
	switch status := m.Header.Get("Status"); status {
	case "":
		return nil
	case "404":
		return store.ErrNotFound
	default:
		return fmt.Errorf("%w: read: %s %s", store.ErrUnavailable, status, m.Header.Get("Description"))
	}
}

const (
	// directGet begins the subject of a get that any replica answers.
	directGet = "$JS.API.DIRECT.GET."
	// noHeaders ends the request of a get. NATS would make headers for each append, which cost as much as the append itself,
	// and its number is in its data.
	noHeaders = `","no_hdr":true}`
)
