// Command table reads what go test -bench printed in several rounds, and writes Markdown tables of the medians. The least
// and the most follow in parentheses where they differ from it.
//
//	go test -run '^$' -bench . -count 6 ./PACKAGE | go run ./bench/table --columns by
//
// A benchmark that is called BenchmarkName/size=10k/by=sonic has its figures in the column sonic of the row size=10k of
// Name's table, a row for each unit. Lines that are no results are left out.
package main

import (
	"flag"
	"log"
	"os"
	"strings"
)

func main() {
	log.SetFlags(0)
	columns := flag.String("columns", "by", "the `key` in a benchmark's name whose values are columns")
	units := flag.String("units", "", "the `units` to show, separated by commas; all by default")
	flag.Parse()
	var only []string
	if *units != "" {
		only = strings.Split(*units, ",")
	}
	f, err := read(os.Stdin, *columns, only)
	if err == nil {
		err = f.write(os.Stdout)
	}
	if err != nil {
		log.Fatal(err)
	}
}
