package upstream

import (
	"bytes"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/codec"
)

// An httpReply is the response to a POST or GET, but for event streams.
type httpReply struct {
	status  int
	header  http.Header
	body    []byte
	session bool // the request named a session
	id      int64
}

// judge returns the message that a response holds, or why it holds none. A response to what is no request (id 0) needs
// no message.
func (r *httpReply) judge(now time.Time) (message []byte, f *Failure) {
	f = &Failure{Why: ReasonStatus, Status: r.status, Text: "the backend answered " + statusText(r.status), Excerpt: excerptOf(r.body), After: retryAfter(r.header, now)}
	kind, isAnswer := r.readBody()
	switch {
	case r.status == http.StatusUnauthorized, r.status == http.StatusForbidden:
		f.Why, f.Outcome = ReasonCredentials, NotRun
	case r.status/100 == 3:
		f.Why, f.Outcome = ReasonRedirected, NotRun
	case r.session && (r.status == http.StatusNotFound || r.status == http.StatusBadRequest && !isAnswer && r.speaksOfSession()):
		f.Why, f.Outcome, f.Text = ReasonSessionGone, NotRun, "the backend has forgotten the session"
	case r.status == http.StatusTooManyRequests, r.status == http.StatusServiceUnavailable:
		f.Why, f.Outcome = ReasonBusy, NotRun
	case r.status/100 == 2 && r.id == 0:
		return nil, nil
	case r.status/100 == 2 && len(bytes.TrimSpace(r.body)) == 0:
		f.Why, f.Text = ReasonMalformed, "the backend answered "+statusText(r.status)+" without an answer"
	case r.status/100 == 2 && kind == codec.Invalid && !r.isJSON():
		f.Why, f.Text = ReasonMalformed, "the backend answered with "+typeText(r.header)
	case r.status/100 == 2: // what is wrong with it, its reader says
		return r.body, nil
	case kind == codec.ErrorResponse && r.id != 0:
		return r.body, nil
	case r.status/100 == 4:
		f.Outcome = NotRun
	}
	return nil, f
}

// readBody returns what the body is as a message, and whether it is the answer to this very request.
func (r *httpReply) readBody() (kind codec.Kind, isAnswer bool) {
	var m codec.Message
	if codec.Scan(bytes.TrimPrefix(r.body, []byte("\xef\xbb\xbf")), &m, scanLimits) != nil {
		return codec.Invalid, false
	}
	id, ok := parseID(m.ID)
	return m.Kind, ok && id == r.id
}

func (r *httpReply) isJSON() bool { return mediaType(r.header) == "application/json" }

// speaksOfSession reports whether a refusal is about the session. Many servers say 400 where the specification has 404.
func (r *httpReply) speaksOfSession() bool {
	text := strings.ToLower(string(r.body[:min(len(r.body), 4<<10)]))
	return strings.Contains(text, "session") || strings.Contains(text, "not initialized")
}

func mediaType(h http.Header) string {
	kind, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return kind
}

func statusText(status int) string {
	return strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
}

func typeText(h http.Header) string {
	if kind := mediaType(h); kind != "" {
		return excerptOf([]byte(kind))
	}
	return "no content type"
}

// mostAfter bounds what Retry-After may say.
const mostAfter = time.Hour

// retryAfter reads the header Retry-After, which is a number of seconds or a date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return min(time.Duration(seconds)*time.Second, mostAfter)
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(0, at.Sub(now)), mostAfter)
	}
	return 0
}

// isToken reports whether s may be the id of a session or event in a header: visible ASCII, and spaces within.
func isToken(s string) bool {
	if s == "" || len(s) > MostToken || s != strings.TrimSpace(s) {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
