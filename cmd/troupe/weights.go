package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// weights is a flag of clients with their weights, as NAME=N, that may be repeated.
type weights map[string]int

func (w *weights) String() string { return strings.Join(w.GetSlice(), ",") }

// GetSlice returns the clients with their weights as texts.
func (w *weights) GetSlice() (all []string) {
	for _, name := range slices.Sorted(maps.Keys(*w)) {
		all = append(all, fmt.Sprintf("%s=%d", name, (*w)[name]))
	}
	return all
}

// Type names the kind of the flag: in a config file it is a list of texts.
func (w *weights) Type() string { return "stringArray" }

// Set adds one. The runtime judges name and weight.
func (w *weights) Set(text string) error {
	i := strings.LastIndex(text, "=")
	n, err := strconv.Atoi(text[i+1:])
	if i < 1 || err != nil {
		return fmt.Errorf("%q is no client with its weight: want something like 192.0.2.7=4", text)
	}
	if _, twice := (*w)[text[:i]]; twice {
		return fmt.Errorf("%q has two weights", text[:i])
	}
	if *w == nil {
		*w = make(weights)
	}
	(*w)[text[:i]] = n
	return nil
}
