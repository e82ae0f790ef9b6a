// Command load measures the server CPU that a tools/call costs, beside a handler
// that reads the body and writes a constant answer: once as an http.Handler in a
// plain http.Server, and once by troupe serve. Server and client are processes of
// their own on the loopback interface; every server runs in every round, and what
// counts is the ratio within a round.
//
//	go run ./bench/load [--conns 32] [--seconds 3] [--rounds 5] [--size 105] [--stateless] [--out FILE]
//	go run ./bench/load hold parked|listen N
//
// hold fails if waiting calls or listeners take more memory than their budget, or leave
// memory behind.
//
// # Files
//
// From the top; most of what a file uses lies in its own line or below:
//
//	main hold  the measurements
//	client server  the two ends
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/troupe-run/troupe/bench/record"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == "bare" {
		serveBare(os.Args[2])
		return
	}
	if len(os.Args) > 2 && os.Args[1] == "handler" {
		serveHandler(os.Args[2])
		return
	}
	conns := flag.Int("conns", 32, "virtual clients, each with its own session and connection")
	seconds := flag.Float64("seconds", 3, "length of a run")
	rounds := flag.Int("rounds", 5, "rounds; each runs every server")
	size := flag.Int("size", 105, "bytes of text to echo")
	bin := flag.String("bin", "", "the troupe binary; empty builds it")
	stateless := flag.Bool("stateless", false, "send stateless requests (2026-07-28)")
	out := flag.String("out", "", "file for the results as JSON")
	flag.Parse()
	log.SetFlags(0)

	dir, err := os.MkdirTemp("", "troupe-load")
	check(err)
	defer os.RemoveAll(dir)
	if *bin == "" {
		*bin = filepath.Join(dir, "troupe")
		build := exec.Command("go", "build", "-o", *bin, "./cmd/troupe")
		build.Stderr = os.Stderr
		check(build.Run())
	}
	self, err := os.Executable()
	check(err)
	if flag.NArg() == 3 && flag.Arg(0) == "hold" {
		n, err := strconv.Atoi(flag.Arg(2))
		check(err)
		check(hold(*bin, flag.Arg(1), n))
		return
	}
	servers := []struct {
		name string
		args func(addr string) []string
	}{
		{"bare", func(addr string) []string { return []string{self, "bare", addr} }},
		{"handler", func(addr string) []string { return []string{self, "handler", addr} }},
		{"serve", func(addr string) []string {
			return []string{*bin, "serve", "--memory", "--listen", addr, "--log-level", "error", "--drain-delay", "1ms",
				"--set", "call-rate=" + fmt.Sprint(beyondLoad), "--set", "principal-rate=" + fmt.Sprint(beyondLoad)}
		}},
	}
	var all []result
	fmt.Printf("%s, %d CPUs, commit %s; %d clients, %d bytes, %d rounds of %gs\n", runtime.Version(), runtime.NumCPU(), record.Commit(), *conns, *size, *rounds, *seconds)
	for round := range *rounds {
		base := time.Duration(0)
		for _, s := range servers {
			r := run(s.name, s.args, *conns, *size, *stateless, time.Duration(*seconds*float64(time.Second)))
			r.Round = round + 1
			if s.name == "bare" {
				base = r.CPU
			}
			r.Ratio = float64(r.CPU) / float64(base)
			all = append(all, r)
			fmt.Printf("round %d %-8s %8.0f/s  cpu %6.1f µs  x bare %.2f  p50 %v  p99 %v  rss %d MB\n", r.Round, r.Server, r.PerSec,
				float64(r.CPU)/1e3, r.Ratio, r.P50.Round(time.Microsecond), r.P99.Round(time.Microsecond), r.RSS>>20)
		}
	}
	for _, s := range servers {
		var cpu, ratio []float64
		for _, r := range all {
			if r.Server == s.name {
				cpu, ratio = append(cpu, float64(r.CPU)/1e3), append(ratio, r.Ratio)
			}
		}
		slices.Sort(cpu)
		slices.Sort(ratio)
		fmt.Printf("median   %-8s cpu %6.1f µs (%.1f..%.1f)  x bare %.2f (%.2f..%.2f)\n", s.name, cpu[len(cpu)/2], cpu[0], cpu[len(cpu)-1],
			ratio[len(ratio)/2], ratio[0], ratio[len(ratio)-1])
	}
	if *out != "" {
		check(record.Of("./bench/load", all).Write(*out))
	}
}
