package quota

// Kind says what bytes are held for. It divides a gauge, and decides nothing.
type Kind uint8

// The kinds of bytes.
const (
	Bodies    Kind = iota // requests on their way, and until they are answered
	Decoded               // what decoding a request makes
	Queues                // responses and events that wait for a client to read them
	Waiting               // what waits for the store, which is counted whether there is room or not
	Parked                // calls that wait for a client's answer
	Listeners             // what clients listen for
	Sessions              // sessions in memory
	Kinds
)

// String returns the kind's name in lower case.
func (k Kind) String() string {
	return [...]string{"bodies", "decoded", "queues", "waiting", "parked", "listeners", "sessions"}[k]
}

// What every layer counts for a request, in bytes. The counts are near what a process really
// holds: TestBytesHeld in test/spec/limits compares them with the heap.
const (
	RequestBytes = 24 << 10 // a request beside its body: its goroutine, header, buffers and call
	ValueBytes   = 96       // each JSON value that decoding its message may make
)

// The parts of Limits.Bytes: the last eighth is for accounts that hold little, at most a 32nd of what
// is left, and 64 KiB in any case.
const (
	reserve    = 8
	little     = 32
	leastBytes = 64 << 10
)

// fairBytes decides on bytes that have been counted: load of limit bytes are held, of these waiting for the store, mine of them
// for the same account. An account may hold twice what is left beside it: alone two thirds, of
// n that want all they can get each 2/(2n+1). So some is always left for one more, and whoever
// held much gets nothing new while others come. (Choudhury and Hahne, Dynamic queue length
// thresholds for shared-memory packet switches, 1998.) One of weight w may hold w times as much: mine is a w-th of what it holds. Of the last eighth, too, nobody may have more than a part of what is
// left: fifty that come one after the other and take all they can get leave enough for one more. What waits for the store was counted
// without asking, perhaps beyond the limit: that is held against those whose it is, and not against an account that holds little.
func fairBytes(load, waiting, mine, limit int64) Refusal {
	switch left := limit - (load - waiting); {
	case left >= 0 && mine <= max(leastBytes, left/little):
		return Admitted
	case load > limit:
		return Full
	case mine/2 <= limit-limit/reserve-load:
		return Admitted
	}
	return OverShare
}

// newcomer is the part of what is left of a store that one client may fill, so that some is left for one more, however many
// have come.
const newcomer = 6

// FairStore decides on n bytes more to be stored: used of limit bytes are in use, mine of them for the same client, and a
// client that cannot have all it wants may have at most a share-th part. What is stored lasts, so that no client can be
// told to give something back: up to a half, with the new bytes, anybody may store, and from there on a client that has stored less than the share,
// and less than a sixth of what is left up to nine tenths, again with the new bytes. Of ten clients that come one after the other and take all they can get, the first has a half, and
// an eleventh may still store a sixtieth of the limit. A limit of 0 is none.
func FairStore(used, mine, n, limit, share int64) Refusal {
	switch most := limit / 10 * 9; {
	case limit <= 0 || used+n <= limit/2:
		return Admitted
	case used > most:
		return Full
	case mine+n > min(limit/share, (most-used)/newcomer):
		return OverShare
	}
	return Admitted
}
