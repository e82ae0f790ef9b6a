package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/troupe-run/troupe/internal/store"
)

// logReader reads the log of a stream.
type logReader struct{ *messages }

// event is one append as it is in the log.
type event struct {
	Num  uint64 // its number
	Data []byte // what was appended; the receiver owns it
}

func (n *logReader) readAppends(ctx context.Context, stream string, from, to uint64) ([]event, error) {
	if to-from >= RingSize {
		from = to - RingSize + 1
	}
	slots, err := n.fetchSlots(ctx, stream, from, to)
	if err != nil {
		return nil, err
	}
	if err := n.recheckMissing(ctx, stream, from, slots); err != nil {
		return nil, err
	}
	found := slots[:0]
	for i, s := range slots {
		if s.Num == from+uint64(i) && len(s.Data) > 0 {
			found = append(found, s)
		}
	}
	return found, nil
}

// recheckMissing asks the leader for appends from append from on that a replica did not have. A replica lags
// at the end, so recheck asks for all numbers behind the last append it has. An
// append missing in front of that has expired, oldest first: the first such
// number that the leader does not have either settles all smaller ones.
func (n *logReader) recheckMissing(ctx context.Context, stream string, from uint64, slots []event) error {
	present := func(i int) bool { return slots[i].Num >= from+uint64(i) }
	last := len(slots) - 1
	for last >= 0 && !present(last) {
		last--
	}
	for i := len(slots) - 1; i >= 0; i-- {
		if present(i) {
			continue
		}
		s, err := n.readSlot(ctx, stream, from+uint64(i))
		if err == nil {
			slots[i] = s
		} else if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if !present(i) && (i < last || last < 0) {
			return nil
		}
	}
	return nil
}

// readSlot reads the slot of append num from the leader, whichever append is in it.
func (n *logReader) readSlot(ctx context.Context, stream string, num uint64) (event, error) {
	s, _, err := n.readSlotTime(ctx, stream, num)
	return s, err
}

// readSlotTime is readSlot, and says when that append was stored, by the clock of the server.
func (n *logReader) readSlotTime(ctx context.Context, stream string, num uint64) (event, time.Time, error) {
	done, err := n.tailSlots.waitForSlot(ctx)
	if err != nil {
		return event{}, time.Time{}, err
	}
	s, err := n.lastMessage(ctx, n.eventStream(stream), n.eventSubject(stream, strconv.FormatUint(num%RingSize, 10)))
	done()
	if err != nil {
		return event{}, time.Time{}, err
	}
	got, data, err := decodeEvent(s.data)
	return event{got, data}, s.at, err
}

// fetchSlots reads the slots of the appends from..to, of any replica. The result has what is in each slot, whichever append that is.
func (n *logReader) fetchSlots(ctx context.Context, stream string, from, to uint64) ([]event, error) {
	done, err := n.readSlots.waitForSlot(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	found := make([]event, to-from+1)
	err = n.directGetSlots(ctx, stream, upFrom(from, 1, to-from+1), getsOfRead, func(s event) bool {
		if i := (s.Num + RingSize - from%RingSize) % RingSize; i < uint64(len(found)) {
			found[i] = s
		}
		return true
	})
	return found, err
}

// directGetSlots reads the slots of the appends nums, of any replica, with a direct get of its explicit subject for each: what answers one request for
// all of them has headers. ahead of them are on their way at a time. It calls yield with whichever append is in a slot, until that
// returns false.
func (n *logReader) directGetSlots(ctx context.Context, stream string, nums []uint64, ahead int, yield func(event) bool) error {
	var (
		tokens = make([]uint64, 0, len(nums)) // of the gets
		got    int                            // answers
		ch     = make(chan answer, ahead)     // has room for all that come when nobody waits any more
		handle = func(m *nats.Msg, err error) bool { ch <- answer{m, err}; return false }
		api    = directGet + n.eventStream(stream)
		start  = `{"last_by_subj":"` + n.eventSubject(stream, "")
	)
	defer func() {
		if got == len(tokens) {
			return
		}
		for _, token := range tokens {
			n.logReads.forgetCall(token)
		}
		for ; got < len(tokens); got++ {
			n.gets.releaseSlot()
		}
	}()
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx))
	}
	for got < len(nums) {
		for len(tokens) < min(got+ahead, len(nums)) {
			if len(tokens) > got {
				if !n.gets.takeSlot() {
					break
				}
			} else if _, err := n.gets.waitForSlot(ctx); err != nil {
				return err
			}
			req := make([]byte, 0, len(start)+len("999")+len(noHeaders))
			req = append(strconv.AppendUint(append(req, start...), nums[len(tokens)]%RingSize, 10), noHeaders...)
			token, err := n.logReads.sendCall(&nats.Msg{Subject: api, Data: req}, false, handle)
			if err != nil {
				n.gets.releaseSlot()
				return err
			}
			tokens = append(tokens, token)
		}
		var a answer
		select {
		case a = <-ch:
			got++
			n.gets.releaseSlot()
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx))
		}
		s, err := a.decodeSlot()
		if err != nil && !errors.Is(err, store.ErrNotFound) { // which the leader decides
			return err
		}
		if err == nil && !yield(s) {
			return nil
		}
	}
	return nil
}

// decodeSlot returns what is in a slot by the answer to a direct get: ErrNotFound if there is nothing.
func (a answer) decodeSlot() (event, error) {
	if a.err != nil {
		return event{}, a.err
	}
	if err := directFault(a.msg); err != nil {
		return event{}, err
	}
	num, data, err := decodeEvent(a.msg.Data)
	return event{num, data}, err
}

// eventSubject returns the subject of one message of a stream.
func (n *logReader) eventSubject(stream, leaf string) string {
	return n.prefix + n.eventShard(stream).subject + "." + stream + "." + leaf
}

// eventStream returns the name in NATS of the stream that has a stream's messages.
func (n *logReader) eventStream(stream string) string { return n.streamName(n.eventShard(stream).name) }

// checkStream refuses an invalid name of a stream, and every call once the node
// is closing.
func (n *logReader) checkStream(stream string) error {
	if n.leaving.Load() {
		return store.ErrClosed
	}
	if !validTokens(stream, 4) {
		return fmt.Errorf("%w: stream %q", store.ErrBadKey, stream)
	}
	return nil
}

const (
	// RingSize is how many appends of a stream are kept: append n replaces n-RingSize.
	RingSize = 1000

	eventVersion = 1
	eventHeader  = 9 // version, append number
)

// decodeEvent splits a stored append.
func decodeEvent(payload []byte) (num uint64, data []byte, err error) {
	switch {
	case len(payload) == 0:
		return 0, nil, store.ErrNotFound
	case payload[0] > eventVersion:
		return 0, nil, fmt.Errorf("append version %d: %w", payload[0], store.ErrNewer)
	case payload[0] != eventVersion || len(payload) < eventHeader:
		return 0, nil, fmt.Errorf("append of %d bytes: %w", len(payload), store.ErrDamaged)
	}
	if num = binary.BigEndian.Uint64(payload[1:]); num == 0 {
		return 0, nil, fmt.Errorf("append number 0: %w", store.ErrDamaged)
	}
	return num, payload[eventHeader:], nil
}

// upFrom returns count numbers from first on, step apart.
func upFrom(first, step, count uint64) []uint64 {
	nums := make([]uint64, count)
	for i := range nums {
		nums[i] = first + uint64(i)*step
	}
	return nums
}
