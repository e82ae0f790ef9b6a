package keeper

import "golang.org/x/sys/unix"

// peerProcess returns the user at the other end of a socket. Its process does not matter where descendants cannot be told.
func peerProcess(fd int) (uid, pid int, err error) {
	c, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return -1, 0, err
	}
	return int(c.Uid), 0, nil
}
