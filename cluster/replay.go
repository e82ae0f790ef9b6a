package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/troupe-run/troupe/internal/limits"
)

const (
	// maxBatch is how many subjects one batch read names; NATS answers 413 above 1,024.
	maxBatch = 500
	// maxBatchBytes bounds the answers of one batch read; further reads ask for
	// the rest.
	maxBatchBytes = 1 << 20
)

// readsAtOnce is how many reads of the log run at a time, and how many searches
// for its end; others wait. With maxBatchBytes each, their answers stay far below
// 64 MiB. Above that the server cuts a connection, with all calls in flight on
// it. It is a connection that no lease and no append uses.
var readsAtOnce = limits.LogReads.Value()

// Stored is one append as it is in the log.
type Stored struct {
	Num  uint64 // its number
	Data []byte // what was appended; the receiver owns it
}

// Read returns the appends from..to, both included, in order. to must not lie
// beyond the stream's tail. A number that is missing from the result is gone,
// which the leader has confirmed: overwritten, emptied or expired. An error says
// nothing about any of them.
func (n *Node) Read(ctx context.Context, stream string, from, to uint64) ([]Stored, error) {
	err := n.checkStream(stream)
	var found []Stored
	if err == nil && to >= max(from, 1) {
		found, err = n.read(ctx, stream, max(from, 1), to)
	}
	if err != nil {
		return nil, fmt.Errorf("cluster: read %s: %w", stream, err)
	}
	return found, nil
}

func (n *Node) read(ctx context.Context, stream string, from, to uint64) ([]Stored, error) {
	if to-from >= RingSize {
		from = to - RingSize + 1
	}
	nums := make([]uint64, 0, to-from+1)
	for num := from; num <= to; num++ {
		nums = append(nums, num)
	}
	slots, err := n.batch(ctx, stream, nums)
	if err != nil {
		return nil, err
	}
	if err := n.recheck(ctx, stream, nums, slots); err != nil {
		return nil, err
	}
	found := make([]Stored, 0, len(nums))
	for _, num := range nums {
		if s, ok := slots[num%RingSize]; ok && s.Num == num && len(s.Data) > 0 {
			found = append(found, s)
		}
	}
	return found, nil
}

// recheck asks the leader for appends that a replica did not have. A replica lags
// at the end, so recheck asks for all numbers behind the last append it has. An
// append missing in front of that has expired, oldest first: the first such
// number that the leader does not have either settles all smaller ones.
func (n *Node) recheck(ctx context.Context, stream string, nums []uint64, slots map[uint64]Stored) error {
	present := func(num uint64) bool { s, ok := slots[num%RingSize]; return ok && s.Num >= num }
	last := -1
	for i, num := range nums {
		if present(num) {
			last = i
		}
	}
	for i := len(nums) - 1; i >= 0; i-- {
		if present(nums[i]) {
			continue
		}
		s, err := n.slot(ctx, stream, nums[i])
		if err == nil {
			slots[nums[i]%RingSize] = s
		} else if !errors.Is(err, ErrNotFound) {
			return err
		}
		if !present(nums[i]) && (i < last || last < 0) {
			return nil
		}
	}
	return nil
}

// slots bounds the reads of one kind that run at a time.
type slots chan struct{}

// errManyReads says that a read did not start in time. Nothing was read.
var errManyReads = fmt.Errorf("%w: too many reads are under way", ErrUnavailable)

// wait waits for a slot; done releases it. It waits no longer than an answer may
// take: if the reads before it get none in that time, waiting on does not help.
func (t slots) wait(ctx context.Context) (done func(), err error) {
	timer := time.NewTimer(callTimeout)
	defer timer.Stop()
	select {
	case t <- struct{}{}:
		return func() { <-t }, nil
	case <-timer.C:
		return nil, errManyReads
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", errManyReads, context.Cause(ctx))
	}
}

// slot reads the slot of append num from the leader, whichever append is in it.
func (n *Node) slot(ctx context.Context, stream string, num uint64) (Stored, error) {
	done, err := n.tailSlots.wait(ctx)
	if err != nil {
		return Stored{}, err
	}
	s, err := n.last(ctx, n.eventStream(stream), n.eventSubject(stream, strconv.FormatUint(num%RingSize, 10)))
	done()
	if err != nil {
		return Stored{}, err
	}
	got, data, err := decodeEvent(s.data)
	return Stored{got, data}, err
}

// batch reads the slots of nums by direct gets of explicit subjects, from any
// replica. The result is by slot, with whichever append is in each.
func (n *Node) batch(ctx context.Context, stream string, nums []uint64) (map[uint64]Stored, error) {
	slots := make(map[uint64]Stored, len(nums))
	for chunk := range slices.Chunk(nums, maxBatch) {
		for len(chunk) > 0 {
			got, more, err := n.multiLast(ctx, n.readSlots, stream, chunk, maxBatchBytes)
			if err != nil {
				return nil, err
			}
			maps.Copy(slots, got)
			if !more || len(got) == 0 {
				break
			}
			rest := make([]uint64, 0, len(chunk))
			for _, num := range chunk {
				if _, ok := got[num%RingSize]; !ok {
					rest = append(rest, num)
				}
			}
			chunk = rest
		}
	}
	return slots, nil
}

// multiLast makes one batch request, whose answer has little more than most bytes. more says that the answer was cut
// short.
func (n *Node) multiLast(ctx context.Context, turns slots, stream string, nums []uint64, most int64) (slots map[uint64]Stored, more bool, err error) {
	head := n.eventSubject(stream, "")
	req := make([]byte, 0, 64+len(nums)*(len(head)+8))
	req = append(req, `{"multi_last":[`...)
	for i, num := range nums {
		if i > 0 {
			req = append(req, ',')
		}
		req = append(append(req, '"'), head...)
		req = append(strconv.AppendUint(req, num%RingSize, 10), '"')
	}
	req = append(req, `],"max_bytes":`...)
	req = append(strconv.AppendInt(req, most, 10), '}')

	done, err := turns.wait(ctx)
	if err != nil {
		return nil, false, err
	}
	defer done()
	// One slot for each append, one for the end, one for an error.
	ch := make(chan answer, len(nums)+2)
	token, err := n.logReads.send(&nats.Msg{Subject: "$JS.API.DIRECT.GET." + n.eventStream(stream), Data: req}, true, func(m *nats.Msg, err error) bool {
		select {
		case ch <- answer{m, err}:
		default:
		}
		return err == nil && m.Header.Get("Status") == ""
	})
	if err != nil {
		return nil, false, err
	}
	defer n.logReads.forget(token)
	slots = make(map[uint64]Stored, len(nums))
	for {
		var a answer
		select {
		case a = <-ch:
		case <-ctx.Done():
			return nil, false, fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
		}
		if a.err != nil {
			return nil, false, a.err
		}
		switch status := a.msg.Header.Get("Status"); status {
		case "":
			num, data, err := decodeEvent(a.msg.Data)
			if err != nil {
				return nil, false, err
			}
			slots[num%RingSize] = Stored{num, data}
		case "204": // The end of the batch.
			pending := a.msg.Header.Get("Nats-Num-Pending")
			return slots, pending != "" && pending != "0", nil
		case "404": // Nothing there, or it vanished meanwhile: the leader knows.
			return slots, false, nil
		default:
			return nil, false, fmt.Errorf("%w: batch read: %s %s", ErrUnavailable, status, a.msg.Header.Get("Description"))
		}
	}
}
