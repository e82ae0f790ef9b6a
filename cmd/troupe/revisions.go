package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/mcp"
)

// revisions is a flag of revisions of the protocol, with commas between them.
type revisions struct {
	text string
	all  []mcp.Revision // those of text, once check has found no fault; nil if the flag was not set
	set  bool
}

func (r *revisions) String() string { return r.text }

// Type names the kind of the flag: in a config file it is a list of texts.
func (r *revisions) Type() string { return "revisions" }

func (r *revisions) Set(text string) error {
	r.text, r.set = text, true
	return nil
}

// spoken are the revisions, oldest first.
func (r *revisions) spoken() []mcp.Revision {
	if r.all == nil {
		return mcp.Revisions()
	}
	return slices.Sorted(slices.Values(r.all))
}

// named are the names of the revisions, oldest first.
func (r *revisions) named() string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(r.spoken()), "[]"), " ", ", ")
}

// handshake is the newest revision that has initialize, or 0.
func (r *revisions) handshake() mcp.Revision { return protocol.Negotiate("", r.spoken()) }

// check reads the revisions, and names everything that is wrong with them.
func (r *revisions) check() error {
	if r.all = nil; !r.set {
		return nil
	}
	if strings.TrimSpace(r.text) == "" {
		return fmt.Errorf("revisions is empty: want some of %s", strings.Join(troupe.Revisions(), ","))
	}
	var faults []string
	for name := range strings.SplitSeq(r.text, ",") {
		name = strings.TrimSpace(name)
		switch one, known := mcp.ParseRevision(name); {
		case !known:
			faults = append(faults, fmt.Sprintf("%q is none", name))
		case slices.Contains(r.all, one):
			faults = append(faults, name+" comes twice")
		default:
			r.all = append(r.all, one)
		}
	}
	if faults != nil {
		return fmt.Errorf("revisions: %s: want some of %s", strings.Join(faults, ", "), strings.Join(troupe.Revisions(), ","))
	}
	return nil
}
