package upstream

import (
	"net/http"
	"slices"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// handshake finds out what a backend speaks and agrees with it on a revision, as a machine: each method
// takes what happened and returns what to do next.
//
//	        ┌──────────── error, list without a newer revision ───────────┐
//	probing ┤                                                             ├─▶ initializing ─▶ settled
//	        ├── 3 s of silence: initialize beside the probe ──────────────┤
//	        ├── only newer revisions, where the older era is wanted ──────┘
//	        └── list with a newer revision ─▶ settled
//
// A list that has only newer revisions does not mean that the backend refuses initialize: servers of the
// TypeScript SDK speak both eras, and list one. Who wants the older one tries, and is content with the newer
// if that is refused, or not answered.
//
// A probe that was silent may be answered late. Its id is not that of initialize, so neither spoils the
// other; but if the answer says that the newer era is the one to speak, a process that got initialize by
// then is in the older one, and another has to be started.
type handshake struct {
	known  Era  // what is remembered, or what is pinned
	pinned bool // the backend is spoken to as known says, whatever it answers
	want   Era  // what to speak with a backend of both eras: EraLegacy, or anything else for the newer one
	oneEra bool // the link belongs to one era

	found        Era
	supported    []mcp.Revision
	probing      bool // the probe is open
	probed       bool // there was one
	probedAgain  bool // there was a second one
	initializing bool // initialize is open, with asked
	asked        mcp.Revision
	askedAgain   bool     // initialize was sent a second time, with another revision
	refused      *Failure // why initialize failed while the probe was still open
	newer        *Settled // what to settle on if initialize fails, nil if that would be the end
}

// A move is what to do next. The zero value is to wait.
type move struct {
	probe      bool         // send server/discover, and call silent after ProbeSilence without an answer
	initialize mcp.Revision // send initialize with it
	hurry      bool         // call unanswered after ProbeSilence
	settled    *Settled     // it is done
	failed     *Failure     // it failed
}

// begin returns the first move.
func (h *handshake) begin() move {
	if h.known == EraLegacy || h.known == EraBoth && h.want == EraLegacy {
		h.found = h.known
		return h.sendInitialize(mcp.LatestLegacy)
	}
	return h.sendProbe()
}

func (h *handshake) sendProbe() move {
	h.probing, h.probed = true, true
	return move{probe: true}
}

func (h *handshake) sendInitialize(r mcp.Revision) move {
	h.initializing, h.asked = true, r
	return move{initialize: r}
}

// onlyModern reports whether the older era may not be tried.
func (h *handshake) onlyModern() bool { return h.pinned && h.known == EraModern }

// probeSilent is called when the probe has had no answer for a while. Who has answered it before is slow.
func (h *handshake) probeSilent() move {
	if !h.probing || h.initializing || h.known == EraModern || h.known == EraBoth {
		return move{}
	}
	return h.sendInitialize(mcp.LatestLegacy)
}

// probeAnswered is called with the answer to the probe.
func (h *handshake) probeAnswered(r Response) move {
	h.probing = false
	if r.Kind == Refused {
		return h.probeRefused(r)
	}
	known, ok := readRevisions(codec.Field(r.Result, "supportedVersions"))
	if !ok || r.Kind != Complete {
		return h.fallBack(EraUnknown, badHandshake("the backend's result of server/discover has no list of revisions", r.Result))
	}
	h.supported, h.found = known, eraOf(known)
	legacy := newestOf(known, false)
	switch {
	case h.found == EraUnknown:
		return move{failed: noRevision(r.Result)}
	case h.found == EraLegacy, h.found == EraBoth && h.want == EraLegacy && !h.onlyModern():
		return h.speakLegacy(legacy, noRevision(r.Result))
	}
	s, f := readDiscover(r.Result, known)
	if f != nil {
		return move{failed: f}
	}
	s.Found = h.found
	switch tries := h.want == EraLegacy && !h.pinned && h.refused == nil; {
	case tries && h.initializing:
		h.newer = &s
		return move{hurry: true}
	case tries:
		h.newer = &s
		m := h.sendInitialize(mcp.LatestLegacy)
		m.hurry = true
		return m
	case h.initializing && h.oneEra:
		return h.restartBackend(h.found)
	}
	return move{settled: &s}
}

// initializeSilent is called when initialize had no answer for a while, though there is something else to settle on.
func (h *handshake) initializeSilent() move {
	if h.newer == nil || !h.initializing {
		return move{}
	}
	return move{settled: h.newer}
}

// probeRefused handles an error in answer to the probe. Those of the newer era alone come from a backend of that era.
func (h *handshake) probeRefused(r Response) move {
	e := r.Err()
	refused := &Failure{Why: ReasonRefused, Outcome: NotRun, Text: "the backend refused server/discover", Err: e}
	switch e.Code {
	case mcp.CodeHeaderMismatch, mcp.CodeMissingCapability:
		return move{failed: refused}
	case mcp.CodeUnsupportedVersion:
		known, ok := readRevisions(codec.Field(codec.Field(r.Error, "data"), "supported"))
		if !ok {
			break
		}
		if newestOf(known, true) == mcp.Latest && !h.probedAgain {
			h.probedAgain = true // it lists the very revision that it refused
			return h.sendProbe()
		}
		h.supported, h.found = known, eraOf(known)
		if legacy := newestOf(known, false); legacy != 0 {
			h.found = EraLegacy // it refused the newer revision that we know
			return h.speakLegacy(legacy, noRevision(r.Error))
		}
		return move{failed: noRevision(r.Error)}
	}
	return h.fallBack(EraLegacy, refused)
}

// probeFailed is called when the probe has failed without an answer.
func (h *handshake) probeFailed(f *Failure) move {
	h.probing = false
	switch {
	case f.Why == ReasonMalformed, f.Why == ReasonStatus && f.Status == http.StatusInternalServerError:
		return h.fallBack(EraUnknown, f)
	case f.Why == ReasonStatus && f.Status/100 == 4:
		return h.fallBack(EraLegacy, f)
	case f.Why == ReasonEnded && h.oneEra && !h.onlyModern() && h.known != EraModern:
		// Some processes end at a request that they do not know.
		return h.restartBackend(EraLegacy)
	}
	return move{failed: f}
}

// fallBack goes on with the older era after an answer that the newer one does not give.
func (h *handshake) fallBack(found Era, why *Failure) move {
	h.found = found
	return h.speakLegacy(mcp.LatestLegacy, why)
}

func (h *handshake) speakLegacy(r mcp.Revision, why *Failure) move {
	switch {
	case h.onlyModern():
		return move{failed: &Failure{Why: ReasonEra, Outcome: NotRun, Text: "the backend does not speak the revisions that the configuration pins", Err: why}}
	case h.refused != nil:
		return move{failed: h.refused}
	case h.initializing:
		return move{}
	}
	return h.sendInitialize(r)
}

func (h *handshake) restartBackend(found Era) move {
	return move{failed: &Failure{Why: ReasonRestart, Outcome: NotRun, Text: "the backend has to be started again for the revisions that it speaks", Era: found}}
}

// initializeAnswered is called with the answer to initialize.
func (h *handshake) initializeAnswered(r Response) move {
	h.initializing = false
	if r.Kind != Refused {
		s, f := readInitialize(r.Result)
		if f != nil {
			return h.initializeFailed(f)
		}
		if h.newer != nil {
			h.found = EraBoth
		}
		s.Found, s.Supported = h.found, h.supported
		return move{settled: &s}
	}
	refused := &Failure{Why: ReasonRefused, Outcome: NotRun, Text: "the backend refused initialize", Err: r.Err()}
	known, ok := readRevisions(codec.Field(codec.Field(r.Error, "data"), "supported"))
	if !ok {
		return h.initializeFailed(refused)
	}
	if h.newer == nil {
		h.supported = known
	}
	if legacy := newestOf(known, false); legacy != 0 && legacy != h.asked && !h.askedAgain {
		h.askedAgain = true
		return h.sendInitialize(legacy)
	}
	if slices.Contains(known, mcp.Latest) && !h.pinned && !h.probed {
		if h.oneEra {
			return h.restartBackend(EraModern)
		}
		h.found = EraUnknown
		return h.sendProbe()
	}
	return h.initializeFailed(refused)
}

// initializeFailed is called when initialize has failed. The probe, if it is still open, decides; what was remembered is
// forgotten.
func (h *handshake) initializeFailed(f *Failure) move {
	h.initializing = false
	switch mayPass := f.Why == ReasonRefused || f.Why == ReasonMalformed || f.Why == ReasonStatus || f.Why == ReasonEra; {
	case h.newer != nil && mayPass:
		return move{settled: h.newer}
	case h.newer != nil && f.Why == ReasonEnded && h.oneEra:
		return h.restartBackend(EraModern)
	case h.probing && mayPass:
		h.refused = f
		return move{}
	case mayPass && h.oneEra && h.probed && h.found == EraBoth:
		// To some processes the probe was the beginning of a session: go-sdk calls initialize a duplicate then.
		return h.restartBackend(EraBoth)
	case mayPass && !h.pinned && !h.probed:
		if h.oneEra {
			return h.restartBackend(EraUnknown)
		}
		h.found = EraUnknown
		return h.sendProbe()
	}
	return move{failed: f}
}
