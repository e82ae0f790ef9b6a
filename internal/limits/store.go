package limits

// What an event of 150 bytes takes at most, in bytes: of the store, and of the process's memory for as long as it is stored
// (BenchmarkStoredEvent in cluster).
const (
	eventStored  = 500
	eventIndexed = 220
)

// leastStore is the smallest store that is a default.
const leastStore = 16 * mib

// DefaultStore is the budget, in bytes, of a store whose option is 0, for a process with that much
// memory: so much that its index takes no more than a quarter of the memory when the store is full
// of small events. A store in memory itself counts, too.
func DefaultStore(memory int64, onDisk bool) int64 {
	room := memory / 4
	if onDisk {
		return clampStore(int64(float64(room)/indexPerByte), StoreOnDisk)
	}
	return clampStore(int64(float64(room)/(1+indexPerByte)), StoreInMemory)
}

// indexPerByte is the index of a byte of the store: three quarters of it are for events.
const indexPerByte = float64(eventIndexed) / eventStored * 3 / 4

func clampStore(n, most int64) int64 { return max(leastStore, min(n, most)/mib*mib) }

// StoreMemory is how much memory a store of that many bytes may need.
func StoreMemory(store int64, onDisk bool) int64 {
	index := int64(float64(store) * indexPerByte)
	if onDisk {
		return index
	}
	return store + index
}
