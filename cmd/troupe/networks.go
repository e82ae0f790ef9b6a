package main

import (
	"errors"
	"net/netip"
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
