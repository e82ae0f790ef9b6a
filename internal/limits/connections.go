package limits

// reserve is how many open files are not for connections of clients: the files of the store, its
// own connections, the log, and the connections to HealthListen.
const reserve = 256

// ConnectionsOf returns how many connections HTTP.Connections and HTTP.ConnectionsPerAddress
// stand for in this process; 0 is no limit. If all is 0, it is what the process may open without
// a reserve, and one address has at most half of that.
func ConnectionsOf(all, perAddress int) (int, int) {
	return connectionsOf(all, perAddress, openFiles())
}

func connectionsOf(all, perAddress, files int) (int, int) {
	perAddress = max(perAddress, 0)
	if all > 0 || files <= 0 {
		return max(all, 0), perAddress
	}
	all = files - min(reserve, files/4)
	if half := max(all/2, 1); perAddress > half {
		perAddress = half
	}
	return all, perAddress
}
