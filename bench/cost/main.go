package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "cost:", err)
		os.Exit(1)
	}
}

func run() error {
	long := flag.Duration("time", 5*time.Minute, "how long to search, for all kinds together")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the mutations; the times of a machine are not reproducible")
	which := flag.String("run", "", "search only the kinds whose `name` matches")
	keep := flag.Bool("keep", false, "write the worst to "+folder)
	flag.Parse()
	pattern, err := regexp.Compile(*which)
	if err != nil {
		return err
	}
	h, err := newHost()
	if err != nil {
		return err
	}
	all := slices.DeleteFunc(kinds(), func(k kind) bool { return !pattern.MatchString(k.name) })
	fmt.Printf("seed %d\n%-16s %-6s %8s %12s %12s %14s\n", *seed, "kind", "worst", "bytes", "heap/byte", "allocs/byte", "CPU ns/byte")
	for i := range all {
		k := &all[i]
		worst := h.search(rand.New(rand.NewPCG(*seed, uint64(i))), k, time.Now().Add(*long/time.Duration(len(all))))
		for _, figure := range []string{"heap", "cpu"} {
			if len(worst[figure]) == 0 {
				continue
			}
			f := worst[figure][0]
			size := float64(f.size)
			fmt.Printf("%-16s %-6s %8d %12.1f %12.2f %14.0f\n", k.name, figure, f.size, float64(f.cost.Bytes)/size, float64(f.cost.Allocs)/size, float64(f.cost.CPU)/size)
			if *keep {
				if err := save(k.name, figure, f); err != nil {
					return err
				}
			}
		}
	}
	return h.close()
}
