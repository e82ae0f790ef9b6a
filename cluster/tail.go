package cluster

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/internal/store"
)

const (
	// tailParts is into how many parts Tail divides the appends among which the last one is.
	tailParts = 16
	// getsOfTail is how many appends Tail asks for before it has their answers, beyond tailBytes.
	getsOfTail = 8
	// tailBytes bounds what Tail reads of these. Of a log with large appends it asks which are there, in place of
	// reading them: a thousand streams of megabytes may be resumed at once.
	tailBytes = 128 << 10
	// expiryDoubt is how long before its time an append may have expired: clocks differ.
	expiryDoubt = 5 * time.Second
)

// tailFinder finds the end of a log.
type tailFinder struct{ *logReader }

func (n tailFinder) findTail(ctx context.Context, stream string, hint uint64) (uint64, error) {
	for tail := hint; ; {
		found, enough, err := n.findNewest(ctx, stream, tail)
		if err == nil && enough {
			enough, err = n.appendLasts(ctx, stream, found)
		}
		if err == nil && !enough {
			found, err = n.lastInRing(ctx, stream, tail)
		}
		if err != nil {
			return 0, err
		}
		tail = found
		s, err := n.readSlot(ctx, stream, tail+1)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return 0, err
		}
		if err != nil || s.Num <= tail {
			return tail, nil
		}
		tail = s.Num
	}
}

// appendLasts reports whether the leader has append num, and will have for a while: then nothing after it has expired. What expires at about the same time
// does so in any order, in each replica by itself.
func (n tailFinder) appendLasts(ctx context.Context, stream string, num uint64) (bool, error) {
	s, at, err := n.readSlotTime(ctx, stream, num)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil && s.Num == num && time.Since(at) < n.opts.EventAge-min(expiryDoubt, n.opts.EventAge/2), err
}

// findNewest returns the highest append number that a few reads find, from append from on. It is not enough if there is none, because
// these appends have expired and later ones may not have, or if they are too large to be read for their number.
func (n tailFinder) findNewest(ctx context.Context, stream string, from uint64) (num uint64, enough bool, err error) {
	nums := []uint64{from}
	for ahead := uint64(1); ahead < RingSize; ahead *= 2 {
		nums = append(nums, from+ahead)
	}
	last, cut, err := n.readHighest(ctx, stream, nums, max(from, 1))
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
		last, cut, err := n.readHighest(ctx, stream, upFrom(num+step, step, (end-num-1)/step), num)
		if num = max(num, last.Num); err != nil || cut {
			return num, false, err
		}
		end = min(end, num+step)
	}
	return num, true, nil
}

// lastInRing returns the number of the last append after append from by the slots that have any append, which the
// leader lists, and of which it reads few. What is in a slot may be one that was appended before from. Only blanks, which are
// written late, outlive later appends: the record covers them, and from is never below what it covers.
func (n tailFinder) lastInRing(ctx context.Context, stream string, from uint64) (uint64, error) {
	for {
		present, err := n.listSlots(ctx, stream)
		if err != nil {
			return 0, err
		}
		var nums []uint64 // that these slots have, or had a round before
		for num := from + 1; num < from+RingSize; num++ {
			if present[num%RingSize] {
				nums = append(nums, num)
			}
		}
		last, err := n.lastOf(ctx, stream, from, nums)
		if !errors.Is(err, store.ErrNotFound) { // otherwise appends have expired since they were listed
			return last, err
		}
	}
}

// lastOf returns the last of nums, ascending, that is in its slot, or from if none is. Those after it were appended a round before. ErrNotFound says that
// a slot has no append any more.
func (n tailFinder) lastOf(ctx context.Context, stream string, from uint64, nums []uint64) (last uint64, err error) {
	last = from
	for known, end := 0, len(nums); known < end; {
		probe := (known + end) / 2
		switch {
		case end == len(nums): // mostly it is the last one,
			probe = end - 1
		case known == 0: // or there is none
			probe = 0
		}
		s, err := n.readSlot(ctx, stream, nums[probe])
		switch {
		case err != nil:
			return 0, err
		case s.Num > nums[probe]:
			return s.Num, nil
		case s.Num == nums[probe]:
			known, last = probe+1, s.Num
		default:
			end = probe
		}
	}
	return last, nil
}

// listSlots reports which slots of a stream's ring have an append.
func (n tailFinder) listSlots(ctx context.Context, stream string) (slots [RingSize]bool, err error) {
	done, err := n.tailSlots.waitForSlot(ctx)
	if err != nil {
		return slots, err
	}
	shard := n.eventShard(stream)
	subjects, err := n.listSubjects(ctx, shard.name, shard.subject+"."+stream+".*")
	done()
	for subject := range subjects {
		if num, bad := strconv.ParseUint(subject[strings.LastIndexByte(subject, '.')+1:], 10, 64); bad == nil && num < RingSize {
			slots[num] = true
		}
	}
	return slots, err
}

// readHighest reads the slots of some appends, of any replica, and returns the one with the highest number in them: none if
// that is below least. cut says that these are more than tailBytes, so that it did not read all.
func (n tailFinder) readHighest(ctx context.Context, stream string, nums []uint64, least uint64) (last event, cut bool, err error) {
	done, err := n.tailSlots.waitForSlot(ctx)
	if err != nil {
		return last, false, err
	}
	defer done()
	size := 0
	err = n.directGetSlots(ctx, stream, nums, getsOfTail, func(s event) bool {
		if size += len(s.Data); s.Num >= max(least, last.Num) {
			last = s
		}
		cut = size > tailBytes
		return !cut
	})
	return last, cut, err
}
