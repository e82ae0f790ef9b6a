package auth

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// metadataURLs returns where an issuer's metadata may be: by RFC 8414, 3.1, then by RFC 8414, 5, and by OpenID Connect Discovery, 4. Without a path the last two are one.
func metadataURLs(issuer string) []string {
	u, _ := url.Parse(issuer) // as checkConfig has found
	origin, path := u.Scheme+"://"+u.Host, strings.TrimSuffix(u.EscapedPath(), "/")
	return slices.Compact([]string{
		origin + "/.well-known/oauth-authorization-server" + path,
		origin + "/.well-known/openid-configuration" + path,
		origin + path + "/.well-known/openid-configuration",
	})
}

// readMetadata returns where an issuer's keys are, from its metadata. The issuer that it names must be identical (RFC 8414, 3.3), and the URL of the keys no less secure than the issuer's.
func readMetadata(data []byte, issuer string) (keys string, err error) {
	o, err := readObject(data)
	if err != nil {
		return "", fmt.Errorf("metadata: %w", err)
	}
	if named, _, err := o.text("issuer"); err != nil || named != issuer {
		return "", fmt.Errorf("metadata: it is of the issuer %q, and not of %q", shortenText(named), issuer)
	}
	keys, _, err = o.text("jwks_uri")
	if err != nil {
		return "", fmt.Errorf("metadata: %w", err)
	}
	u, err := secureURL(keys)
	if err != nil {
		return "", fmt.Errorf("metadata: jwks_uri: %w", err)
	}
	if u.Scheme != "https" && !strings.HasPrefix(issuer, "http://") {
		return "", fmt.Errorf("metadata: jwks_uri is %q, which is less secure than the issuer", keys)
	}
	return keys, nil
}

// askedInterval is how long a response may be kept (RFC 9111, 5.2.2 and 4.2.3), noInterval if it does not say.
func askedInterval(h http.Header) time.Duration {
	asked := noInterval
	for _, line := range h["Cache-Control"] {
		for d := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(strings.ToLower(strings.TrimSpace(d)), "=")
			switch name {
			case "no-store", "no-cache":
				return 0
			case "max-age":
				if n, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31); err == nil {
					asked = time.Duration(n) * time.Second
				}
			}
		}
	}
	if age, err := strconv.ParseUint(h.Get("Age"), 10, 31); err == nil && asked > 0 {
		asked = max(asked-time.Duration(age)*time.Second, 0)
	}
	return asked
}

// secureURL reads a URL to which a token may go, or from which keys may come (OAuth 2.1, 1.5): https, or http on the loopback interface.
func secureURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Hostname() == "" || hasControl(s) || strings.ContainsAny(s, " \"\\"):
		return nil, fmt.Errorf("%q is no URL with a host", s)
	case u.User != nil:
		return nil, fmt.Errorf("the URL of %s must not have a user", u.Host)
	case u.Scheme == "https", u.Scheme == "http" && isLoopback(u.Hostname()):
		return u, nil
	}
	return nil, fmt.Errorf("%q must begin with https://, as its host is not on the loopback interface", s)
}

// sameHost reports whether two URLs are of one origin.
func sameHost(a, b *url.URL) bool {
	port := func(u *url.URL) string {
		if p := u.Port(); p != "" {
			return p
		}
		return map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return a.Scheme == b.Scheme && net.JoinHostPort(strings.ToLower(a.Hostname()), port(a)) == net.JoinHostPort(strings.ToLower(b.Hostname()), port(b))
}

func isLoopback(host string) bool {
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Unmap().IsLoopback()
	}
	return strings.EqualFold(host, "localhost")
}
