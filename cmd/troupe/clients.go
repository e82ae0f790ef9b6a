package main

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// networks is a flag of address ranges that may be repeated. A single address is a
// range of one address.
type networks []netip.Prefix

func (n *networks) String() string { return strings.Join(n.GetSlice(), ",") }

// GetSlice returns the ranges as texts.
func (n *networks) GetSlice() []string {
	all := make([]string, len(*n))
	for i, p := range *n {
		all[i] = p.String()
	}
	return all
}

// Type names the kind of the flag: in a config file it is a list of texts.
func (n *networks) Type() string { return "stringArray" }

func (n *networks) Set(text string) error {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		var a netip.Addr
		a, err = netip.ParseAddr(text)
		p = netip.PrefixFrom(a, a.BitLen())
	}
	if err != nil || strings.Contains(text, "%") {
		return errors.New("want a network such as 10.0.0.0/8, or an address")
	}
	*n = append(*n, p.Masked())
	return nil
}

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
