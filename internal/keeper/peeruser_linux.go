package keeper

import "golang.org/x/sys/unix"

// peerProcess returns the user and the process at the other end of a socket. The process is 0 if this one cannot see it.
func peerProcess(fd int) (uid, pid int, err error) {
	c, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return -1, 0, err
	}
	return int(c.Uid), int(c.Pid), nil
}
