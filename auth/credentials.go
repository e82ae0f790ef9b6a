package auth

import (
	"net/http"
	"strings"
)

// MaxToken is the longest token that is looked at, in bytes.
const MaxToken = 16 << 10

// Credentials returns the token of the Authorization header (RFC 6750, 2.1), and "" if there is none or the header has another scheme. The name of the scheme is in
// any case. Two headers, a scheme without a token, and what is more than one credential are a 400; a token that is too long or has other characters than a token may
// have is a 401. No other place can hold a token: neither the query nor a form.
func Credentials(h http.Header) (token string, r *Refusal) {
	values := h["Authorization"]
	switch {
	case len(values) == 0:
		return "", nil
	case len(values) > 1:
		return "", invalidRequest()
	}
	const scheme = "bearer"
	v := strings.Trim(values[0], " ")
	if n := len(scheme + " "); len(v) > n && strings.EqualFold(v[:n], scheme+" ") && isToken(v[n:]) {
		return v[n:], nil // as nearly all are, which are so looked through once
	}
	if hasControl(v) {
		return "", invalidRequest()
	}
	if len(v) < len(scheme) || !strings.EqualFold(v[:len(scheme)], scheme) {
		return "", nil
	}
	if v = v[len(scheme):]; v == "" {
		return "", invalidRequest()
	}
	if v[0] != ' ' {
		return "", nil // another scheme, whose name begins like this one
	}
	v = strings.TrimLeft(v, " ")
	switch {
	case strings.ContainsAny(v, " ,"):
		return "", invalidRequest()
	case !isToken(v):
		return "", invalidToken(ReasonMalformed)
	}
	return v, nil
}

func hasControl(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return true
		}
	}
	return false
}

// tokenBytes are those of a b64token but for the "=" at its end.
var tokenBytes = func() (of [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/") {
		of[c] = true
	}
	return of
}()

// isToken reports whether s is a b64token (RFC 6750, 2.1) that is not too long.
func isToken(s string) bool {
	if len(s) > MaxToken {
		return false
	}
	body := strings.TrimRight(s, "=")
	for i := range len(body) {
		if !tokenBytes[body[i]] {
			return false
		}
	}
	return body != ""
}
