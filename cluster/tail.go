package cluster

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const (
	// tailParts is into how many parts Tail divides the appends among which the last one is.
	tailParts = 16
	// getsOfTail is how many appends Tail asks for before it has their answers, beyond tailBytes.
	getsOfTail = 8
	// tailBytes bounds what Tail reads of these. Of a log with large appends it asks which are there, in place of
	// reading them: a thousand streams of megabytes may be resumed at once.
	tailBytes = 128 << 10
)

// Tail returns the number of a stream's last append. It searches forward from
// hint, a number that was appended, or 0 if none is known. It returns hint if
// nothing later is stored. The leader has confirmed the end.
func (n *Node) Tail(ctx context.Context, stream string, hint uint64) (uint64, error) {
	err := n.checkStream(stream)
	tail := hint
	if err == nil {
		tail, err = n.tail(ctx, stream, hint)
	}
	if err != nil {
		return 0, fmt.Errorf("cluster: tail of %s: %w", stream, err)
	}
	return tail, nil
}

func (n *Node) tail(ctx context.Context, stream string, hint uint64) (uint64, error) {
	tail := hint
	for {
		found, enough, err := n.newest(ctx, stream, tail)
		if err == nil && !enough {
			found, err = n.lastInRing(ctx, stream, tail)
		}
		if err != nil {
			return 0, err
		}
		began := tail
		tail = found
		s, err := n.slot(ctx, stream, tail+1)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return 0, err
		}
		if err == nil && s.Num > tail {
			tail = s.Num
			continue
		}
		if tail == began {
			return tail, nil
		}
		// An append that the search did not find may have expired meanwhile, in front of others. The last one has then expired, too.
		s, err = n.slot(ctx, stream, tail)
		switch {
		case err != nil && !errors.Is(err, ErrNotFound):
			return 0, err
		case err == nil && s.Num == tail:
			return tail, nil
		case err == nil && s.Num > tail:
			tail = s.Num
		}
	}
}

// newest returns the highest append number that a few reads find, from append from on. It is not enough if there is none, because
// these appends have expired and later ones may not have, or if they are too large to be read for their number.
func (n *Node) newest(ctx context.Context, stream string, from uint64) (num uint64, enough bool, err error) {
	nums := []uint64{from}
	for ahead := uint64(1); ahead < RingSize; ahead *= 2 {
		nums = append(nums, from+ahead)
	}
	last, cut, err := n.highest(ctx, stream, nums, max(from, 1))
	if num = max(last.Num, from); err != nil || cut || len(last.Data) == 0 {
		return num, false, err // a blank may outlive what follows it
	}
	// After an append that has not expired, all are there up to the end, which lies between num and the next one that was not found.
	end := from + RingSize
	for _, p := range nums {
		if p > num {
			end = min(end, p)
		}
	}
	for num > from && num+1 < end {
		step := (end - num + tailParts - 1) / tailParts
		last, cut, err := n.highest(ctx, stream, upFrom(num+step, step, (end-num-1)/step), num)
		if num = max(num, last.Num); err != nil || cut {
			return num, false, err
		}
		end = min(end, num+step)
	}
	return num, true, nil
}

// upFrom returns count numbers from first on, step apart.
func upFrom(first, step, count uint64) []uint64 {
	nums := make([]uint64, count)
	for i := range nums {
		nums[i] = first + uint64(i)*step
	}
	return nums
}

// lastInRing returns the number of the last append after append from by the slots that have any append, which the
// leader lists, and of which it reads few. What is in a slot may be one that was appended before from: then nothing
// has expired, since appends expire in their order. Only blanks, which are written late, outlive later appends: the
// record covers them, and from is never below what it covers.
func (n *Node) lastInRing(ctx context.Context, stream string, from uint64) (uint64, error) {
	for {
		present, err := n.present(ctx, stream)
		if err != nil {
			return 0, err
		}
		last, err := n.lastPresent(ctx, stream, from, &present)
		if !errors.Is(err, ErrNotFound) { // otherwise appends have expired since they were listed
			return last, err
		}
	}
}

// lastPresent is lastInRing where the slots with any append are known. ErrNotFound says that one of them has expired since.
func (n *Node) lastPresent(ctx context.Context, stream string, from uint64, present *[RingSize]bool) (uint64, error) {
	at := func(num uint64) bool { return present[num%RingSize] }
	begin := from + 1
	for begin < from+RingSize && !at(begin) {
		begin++
	}
	end := begin - 1 // of the appends that are there
	for end+1 < from+RingSize && at(end+1) {
		end++
	}
	if end < begin {
		return from, nil
	}
	// It is the last one at or before end whose slot has it, or a later one; if there is none, all are of the round before.
	last := from
	for known, probe := begin-1, end; ; {
		s, err := n.slot(ctx, stream, probe)
		switch {
		case err != nil:
			return 0, err
		case s.Num > probe:
			return s.Num, nil
		case s.Num == probe:
			known, last = probe, probe
		default:
			end = probe - 1
		}
		if known >= end {
			return last, nil
		}
		probe = known + (end-known+1)/2
	}
}

// present reports which slots of a stream's ring have an append.
func (n *Node) present(ctx context.Context, stream string) (slots [RingSize]bool, err error) {
	done, err := n.tailSlots.wait(ctx)
	if err != nil {
		return slots, err
	}
	shard := n.shard(stream)
	subjects, err := n.subjects(ctx, shard.name, shard.subject+"."+stream+".*")
	done()
	for subject := range subjects {
		if num, bad := strconv.ParseUint(subject[strings.LastIndexByte(subject, '.')+1:], 10, 64); bad == nil && num < RingSize {
			slots[num] = true
		}
	}
	return slots, err
}

// highest reads the slots of some appends, of any replica, and returns the one with the highest number in them: none if
// that is below least. cut says that these are more than tailBytes, so that it did not read all.
func (n *Node) highest(ctx context.Context, stream string, nums []uint64, least uint64) (last Stored, cut bool, err error) {
	done, err := n.tailSlots.wait(ctx)
	if err != nil {
		return last, false, err
	}
	defer done()
	size := 0
	err = n.direct(ctx, stream, nums, getsOfTail, func(s Stored) bool {
		if size += len(s.Data); s.Num >= max(least, last.Num) {
			last = s
		}
		cut = size > tailBytes
		return !cut
	})
	return last, cut, err
}
