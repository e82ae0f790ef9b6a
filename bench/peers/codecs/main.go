// Command codecs prints which faults in a message Troupe's codec and other JSON libraries refuse, and when. Its benchmarks
// give all of them the same work of a dispatcher, on the same messages; its tests prove that they come to the same result.
//
//	go -C bench/peers run ./codecs
//	go -C bench/peers test -run '^$' -bench . ./codecs
//
// bench/run --codec runs both. docs/bench.md says what is compared.
package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"strings"
)

func main() {
	log.SetFlags(0)
	if err := table(os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// table writes a row for each fault and a column for each contestant.
func table(w io.Writer) error {
	var b strings.Builder
	all := contestants()
	b.WriteString("| fault |")
	for _, c := range all {
		fmt.Fprintf(&b, " %s |", c.name)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(all)) + "\n")
	for _, f := range faults {
		fmt.Fprintf(&b, "| %s |", f.name)
		for _, c := range all {
			fmt.Fprintf(&b, " %s |", c.meets(f))
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}
