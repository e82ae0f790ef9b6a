// The program fails is an image that does not work.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "this image does not work")
	os.Exit(1)
}
