package cluster

import (
	"context"
	"fmt"
	"os"
	"time"
)

const (
	// statesRounds is how often the process of TestEveryState starts.
	statesRounds = 5
	// statesAppends is how many appends it then makes, with a flush for each.
	statesAppends = 9
	wantStates    = 200
)

// runStates is the process of TestEveryState: it starts a node again and again on a
// directory, each time with another limit, so that the node writes the descriptions of
// the streams anew, and prints what was acknowledged.
func runStates(dir string) error {
	ctx := context.Background()
	fmt.Println("pid", os.Getpid())
	num := uint64(0)
	var rev uint64
	for round := range int64(statesRounds) {
		n, err := Open(ctx, Options{Dir: dir, Sync: -1, MaxStore: (64 + round) << 20})
		if err != nil {
			return err
		}
		if round == 0 {
			if rev, err = n.OpenStream(ctx, testStream, []byte("w"), nil, time.Hour); err != nil {
				return err
			}
			if _, err := n.Create(ctx, testKey, []byte("x"), time.Hour); err != nil {
				return err
			}
			fmt.Println("session")
		}
		for range statesAppends {
			num++
			if err := appendWait(n, testStream, rev, num, []byte("data")); err != nil {
				return err
			}
			fmt.Println("acked", num)
		}
		if err := n.Close(ctx); err != nil {
			return err
		}
	}
	return nil
}
