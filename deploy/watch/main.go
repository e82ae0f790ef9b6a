package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	out := flag.String("out", "grafana", "the directory to write to")
	flag.Parse()
	for name, d := range dashboards() {
		text, err := d.encode()
		if err == nil {
			err = os.WriteFile(filepath.Join(*out, name+".json"), text, 0o644)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "watch: %s: %v\n", name, err)
			os.Exit(1)
		}
	}
}

// dashboards returns all of them by the names of their files.
func dashboards() map[string]*dashboard {
	return map[string]*dashboard{"overview": overview(), "node": node(), "tools": tools(), "streams": streams()}
}
