package limits

import "math"

// reserve is how many open files are not for connections of clients: the files of the store, its
// own connections, the log, and the connections to HealthListen.
const reserve = 256

const (
	// connectionBytes is the memory of the process for each connection that it may have.
	connectionBytes = 64 * kib
	// addressPart is the part of all connections that one address may have.
	addressPart = 16
)

// ConnectionsOf returns how many connections HTTP.Connections and HTTP.ConnectionsPerAddress
// stand for in this process, which may use so many bytes of memory; 0 is no limit. If all is 0, it
// is what there is memory for, and at most what the process may open without a reserve. One
// address has at most a part of all.
func ConnectionsOf(all, perAddress int, memory int64) (int, int) {
	return connectionsOf(all, perAddress, openFiles(), memory)
}

func connectionsOf(all, perAddress, files int, memory int64) (int, int) {
	if all <= 0 {
		all = int(min(memory/connectionBytes, math.MaxInt32))
		if files > 0 {
			if room := files - min(reserve, files/4); all <= 0 || room < all {
				all = room
			}
		}
		all = max(all, 0)
	}
	switch {
	case perAddress < 0:
		return all, 0
	case all > 0:
		perAddress = min(perAddress, max(all/addressPart, 1))
	}
	return all, perAddress
}
