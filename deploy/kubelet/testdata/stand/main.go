// The program stand is an image that does not work as it should, in the way that MODE says: it fails at once, or it is ready where
// TROUPE_HEALTH_LISTEN says, and is stubborn and does not end, or is sick after a while.
package main

import (
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

func main() {
	mode := os.Getenv("MODE")
	if mode == "fails" {
		fmt.Fprintln(os.Stderr, "this image does not work")
		os.Exit(1)
	}
	if mode == "stubborn" {
		signal.Ignore(syscall.SIGTERM)
	}
	var asked atomic.Int32
	err := http.ListenAndServe(os.Getenv("TROUPE_HEALTH_LISTEN"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if mode == "sick" && r.URL.Path == "/healthz" && asked.Add(1) > 2 { // the first is of its start
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
