package quota

// Refusal says why a client gets no more of something, such as a place.
type Refusal uint8

// The decisions. Those of places stand here; bytes, [Census] and stores have the same ones.
const (
	Admitted  Refusal = iota
	Full              // Limits.Places are in use
	OverShare         // few places are left, and the account has its share
	OverLimit         // the account has Limits.Each requests in flight, here and elsewhere
)

// ExceedsLimit reports whether n exceeds the limit; a negative limit means no limit.
func ExceedsLimit(n int64, limit int) bool { return limit >= 0 && n > int64(limit) }

// isBusy reports whether few places are left when load of limit are in use: from there on
// clients share the places.
func isBusy(load int64, limit int) bool {
	return limit >= 0 && load > int64(limit)/4*3+int64(limit)%4*3/4
}

// fairPlaces decides on a request that was counted while few places are left: load of limit
// places are in use, mine of them by the same account of some weight, and those that contend, whose weights add up to sum, share all
// places. No account gets more than its share, so that there is room for late ones.
func fairPlaces(load, mine int64, limit int, weight, sum int64) Refusal {
	switch {
	case load > int64(limit):
		return Full
	case mine > max(1, partOf(int64(limit), weight, sum)):
		return OverShare
	}
	return Admitted
}
