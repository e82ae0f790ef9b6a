package cluster

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/store"
)

const (
	// getsOfRead is how many appends a read asks for before it has their answers, if other reads leave it as many.
	getsOfRead = 64
	// getsAtOnce is how many all reads and all searches for an end together ask for. With MaxAppend each, their answers stay at
	// half of 64 MiB. Above that the server cuts a connection, with all calls in flight on it. It is a connection that no
	// lease and no append uses.
	getsAtOnce = 128
)

// readsAtOnce is how many reads of the log run at a time, and how many searches
// for its end; others wait.
var readsAtOnce = limits.LogReads.Value()

// event is one append as it is in the log.
type event struct {
	Num  uint64 // its number
	Data []byte // what was appended; the receiver owns it
}

// Read calls f with the appends from..to, both included, in order. to must not lie
// beyond the stream's tail. A number that is missing is gone, which the leader has
// confirmed: overwritten, emptied or expired. f owns the data. After an error,
// which says nothing about any of them, f was not called.
func (n *Node) Read(ctx context.Context, stream string, from, to uint64, f func(num uint64, data []byte)) error {
	err := n.checkStream(stream)
	var found []event
	if err == nil && to >= max(from, 1) {
		found, err = n.readAppends(ctx, stream, max(from, 1), to)
	}
	if err != nil {
		return fmt.Errorf("cluster: read %s: %w", stream, err)
	}
	for _, e := range found {
		f(e.Num, e.Data)
	}
	return nil
}

func (n *Node) readAppends(ctx context.Context, stream string, from, to uint64) ([]event, error) {
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
func (n *Node) recheckMissing(ctx context.Context, stream string, from uint64, slots []event) error {
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

// slots bounds the reads of one kind that run at a time.
type slots chan struct{}

// errManyReads says that a read did not start in time. Nothing was read.
var errManyReads = fmt.Errorf("%w: too many reads are under way", store.ErrUnavailable)

// waitForSlot waits for a slot; done releases it. It waits no longer than an answer may
// take: if the reads before it get none in that time, waiting on does not help.
func (t slots) waitForSlot(ctx context.Context) (done func(), err error) {
	if t.takeSlot() {
		return t.releaseSlot, nil
	}
	timer := time.NewTimer(callTimeout)
	defer timer.Stop()
	select {
	case t <- struct{}{}:
		return t.releaseSlot, nil
	case <-timer.C:
		return nil, errManyReads
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", errManyReads, context.Cause(ctx))
	}
}

// takeSlot takes a slot if one is free.
func (t slots) takeSlot() bool {
	select {
	case t <- struct{}{}:
		return true
	default:
		return false
	}
}

// releaseSlot releases a slot.
func (t slots) releaseSlot() { <-t }

// readSlot reads the slot of append num from the leader, whichever append is in it.
func (n *Node) readSlot(ctx context.Context, stream string, num uint64) (event, error) {
	s, _, err := n.readSlotTime(ctx, stream, num)
	return s, err
}

// readSlotTime is readSlot, and says when that append was stored, by the clock of the server.
func (n *Node) readSlotTime(ctx context.Context, stream string, num uint64) (event, time.Time, error) {
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

const (
	// directGet begins the subject of a get that any replica answers.
	directGet = "$JS.API.DIRECT.GET."
	// noHeaders ends the request of a get. NATS would make headers for each append, which cost as much as the append itself,
	// and its number is in its data.
	noHeaders = `","no_hdr":true}`
)

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

// fetchSlots reads the slots of the appends from..to, of any replica. The result has what is in each slot, whichever append that is.
func (n *Node) fetchSlots(ctx context.Context, stream string, from, to uint64) ([]event, error) {
	done, err := n.readSlots.waitForSlot(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	found := make([]event, to-from+1)
	err = n.getSlots(ctx, stream, upFrom(from, 1, to-from+1), getsOfRead, func(s event) bool {
		if i := (s.Num + RingSize - from%RingSize) % RingSize; i < uint64(len(found)) {
			found[i] = s
		}
		return true
	})
	return found, err
}

// getSlots reads the slots of the appends nums, of any replica, with a direct get of its explicit subject for each: what answers one request for
// all of them has headers. ahead of them are on their way at a time. It calls yield with whichever append is in a slot, until that
// returns false.
func (n *Node) getSlots(ctx context.Context, stream string, nums []uint64, ahead int, yield func(event) bool) error {
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
