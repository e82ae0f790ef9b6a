//go:build unix && !linux && !darwin

package keeper

func peerUser(int) (int, error) { return -1, errNoPeer }
