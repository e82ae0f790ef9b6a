//go:build unix && !linux && !darwin

package keeper

func peerProcess(int) (uid, pid int, err error) { return -1, 0, errNoPeer }
