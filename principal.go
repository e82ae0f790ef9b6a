package troupe

import (
	"crypto/sha256"
	"encoding"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/transport"
)

// Principal is the user or program that makes a request. Sessions, streams and cursors
// of one principal do not exist for another. The zero Principal is anonymous. Requests with one access token share Claims and Scopes: do not change them.
type Principal struct {
	Issuer  string `json:"issuer"`  // the authority that vouches for the subject
	Subject string `json:"subject"` // unique at its issuer; empty means anonymous, and needs an empty Issuer
	// Claims go to handlers unchanged. They are stored with calls that may run again,
	// so they must hold no secrets.
	Claims json.RawMessage `json:"claims,omitempty"`
	// Client is the id of the OAuth client that makes the request for the subject, and may be empty. It is stored like Claims, and says nothing about
	// what the caller may see: two clients of one user share that user's sessions.
	Client string `json:"client,omitempty"`
	// Scopes are those that the caller's token has, without those that they imply. They are stored like Claims.
	Scopes []string `json:"scopes,omitempty"`
	// Machine says that a client acts for itself, as with the client credentials grant (RFC 9068, 5). A machine and a user of one name are two principals.
	Machine bool `json:"machine,omitempty"`
	// Expires is when the caller's token ends, the zero time if it does not. What a request with it has opened ends 30 seconds later: docs/auth.md says what, and how it goes on.
	Expires time.Time `json:"expires,omitzero"`
	// Token lets a handler act on the user's behalf, such as an access token for another
	// service. It is never stored: a call that runs again in another process has none, and
	// must report that it cannot go on. A message of HTTP+SSE that reaches another process
	// than its session's brings it along, sealed. Secret.Reveal returns the text.
	Token Secret `json:"-"`
}

// Secret is a text that must not be printed: packages fmt, log/slog and encoding/json show
// that it is set, but not the text, wherever in a value the Secret lies. The zero Secret is
// empty. Do not compare Secrets with ==, which may be false for the same text: compare the
// results of Reveal.
type Secret struct{ text *string } // fmt reads unexported fields, but follows no pointer there

var (
	_ fmt.GoStringer         = Secret{}
	_ slog.LogValuer         = Secret{}
	_ encoding.TextMarshaler = Secret{}
)

// NewSecret returns a Secret that holds text.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{&text}
}

// Reveal returns the text, "" for the zero Secret.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// String returns "[secret]", or "" for the zero Secret.
func (s Secret) String() string {
	if s.text == nil {
		return ""
	}
	return "[secret]"
}

// GoString is String for %#v.
func (s Secret) GoString() string { return fmt.Sprintf("troupe.Secret(%q)", s.String()) }

// LogValue is String for package slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText is String for encoders: a Secret is not read back.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String returns the subject and the issuer, without claims and token.
func (p Principal) String() string {
	if p.Issuer == "" {
		return p.Subject
	}
	return p.Subject + " of " + p.Issuer
}

// GoString is String for %#v.
func (p Principal) GoString() string { return fmt.Sprintf("troupe.Principal(%q)", p.String()) }

// LogValue is String for package slog.
func (p Principal) LogValue() slog.Value { return slog.StringValue(p.String()) }

// withoutToken returns p as it may be kept after the request.
func (p Principal) withoutToken() Principal {
	p.Token = Secret{}
	return p
}

// anonymous is the tenant of all anonymous clients.
const anonymous = "anon"

const (
	tenantAlphabet = "abcdefghijklmnopqrstuvwxyz234567"
	tenantLength   = 26
)

var tenantEncoding = base32.NewEncoding(tenantAlphabet).WithPadding(base32.NoPadding)

// tenantHash returns the part of keys and subjects that stands for a principal.
func (p *Principal) tenantHash() string {
	if p.Subject == "" && p.Issuer == "" {
		return anonymous
	}
	kind := uint64(len(p.Issuer))
	if p.Machine {
		kind |= 1 << 63 // no length has this bit
	}
	b := binary.BigEndian.AppendUint64(nil, kind)
	b = append(b, p.Issuer...)
	b = append(b, p.Subject...)
	sum := sha256.Sum256(b)
	return tenantEncoding.EncodeToString(sum[:])[:tenantLength]
}

// caller is the value that the transport carries for an authenticated request.
type caller struct {
	Principal
	key    string
	r      *http.Request
	stored []string       // Options.HTTP.StoredHeaders
	token  *auth.Identity // of Options.Auth, nil without
}

// Until is the first moment at which what the caller holds open ends: its token does not count any more.
func (c *caller) Until() time.Time {
	return (&auth.Identity{Issuer: c.Issuer, Expires: c.Expires}).Ends()
}

// isAnonymous reports whether nobody says who makes a request.
func isAnonymous(principal any) bool {
	switch p := principal.(type) {
	case *anybody, *carriedAnybody:
		return true
	case *caller:
		return p.key == anonymous
	}
	return false
}

// local is whoever has the process for itself, over stdio: it may do everything.
type local struct{}

// MarshalJSON returns local as the store has it.
func (local) MarshalJSON() ([]byte, error) { return codec.Marshal(storedCaller{Local: true}) }

// anybody is the request of an anonymous client. It costs no allocation.
type anybody http.Request

// storedCaller is a caller as the store has it: without its token, and with the headers
// of HTTPOptions.StoredHeaders alone.
type storedCaller struct {
	Issuer  string          `json:"issuer"`
	Subject string          `json:"subject"`
	Claims  json.RawMessage `json:"claims,omitempty"`
	Client  string          `json:"client,omitempty"`
	Scopes  []string        `json:"scopes,omitempty"`
	Machine bool            `json:"machine,omitempty"`
	Expires int64           `json:"expires,omitempty"` // unix seconds; 0: never
	Header  http.Header     `json:"header,omitempty"`
	Local   bool            `json:"local,omitempty"` // see local
}

// asPrincipal is the caller as handlers see it, without its token.
func (s *storedCaller) asPrincipal() Principal {
	p := Principal{Issuer: s.Issuer, Subject: s.Subject, Claims: s.Claims, Client: s.Client, Scopes: s.Scopes, Machine: s.Machine}
	if s.Expires != 0 {
		p.Expires = time.Unix(s.Expires, 0)
	}
	return p
}

// callerForm is a caller on its way to another process.
type callerForm struct {
	storedCaller
	Token string `json:"token,omitempty"`
}

// carriedCaller is a caller whose message came by way of another process.
type carriedCaller struct {
	callerForm
	passed http.Header // of its request, see serviceHosting.passes
}

// Until is as that of caller.
func (c *carriedCaller) Until() time.Time {
	p := c.asPrincipal()
	return (&auth.Identity{Issuer: p.Issuer, Expires: p.Expires}).Ends()
}

// carriedAnybody is an anonymous client whose message came by way of another process.
type carriedAnybody struct{ passed http.Header }

// MarshalJSON returns null, as that of anybody.
func (*carriedAnybody) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// MarshalJSON returns the caller as the store has it.
func (c *carriedCaller) MarshalJSON() ([]byte, error) { return codec.Marshal(c.storedCaller) }

// maxStoredHeader bounds the headers that are stored with a call, in bytes together.
var maxStoredHeader = limits.StoredHeader.Value()

// MarshalJSON returns the caller as the store has it.
func (c *caller) MarshalJSON() ([]byte, error) { return codec.Marshal(c.asStored()) }

var _ actors.Carried = (*caller)(nil)

// Carry returns the caller as another process gets it with its message.
func (c *caller) Carry() ([]byte, error) {
	return codec.Marshal(callerForm{c.asStored(), c.Token.Reveal()})
}

// asStored is the caller as the store has it.
func (c *caller) asStored() storedCaller {
	s := storedCaller{Issuer: c.Issuer, Subject: c.Subject, Claims: c.Claims, Client: c.Client, Scopes: c.Scopes, Machine: c.Machine}
	if !c.Expires.IsZero() {
		s.Expires = c.Expires.Unix()
	}
	if !codec.Valid(s.Claims) {
		s.Claims = nil // or nothing at all could be stored
	}
	room := maxStoredHeader
	for _, name := range c.stored {
		values := c.r.Header[name]
		for _, v := range values {
			room -= len(name) + len(v)
		}
		if len(values) == 0 || room < 0 {
			continue
		}
		if s.Header == nil {
			s.Header = make(http.Header)
		}
		s.Header[name] = values
	}
	return s
}

// Nameless makes the transport count the request on the account of its address.
func (*anybody) Nameless() {}

var _ transport.Nameless = (*anybody)(nil)

// MarshalJSON returns null: the store keeps nothing of an anonymous client.
func (*anybody) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

func principalOf(v any) Principal {
	switch v := v.(type) {
	case *caller:
		return v.Principal
	case json.RawMessage:
		s := storedOf(v)
		return s.asPrincipal()
	case *carriedCaller:
		p := v.asPrincipal()
		p.Token = NewSecret(v.Token)
		return p
	}
	return Principal{}
}

func storedOf(raw json.RawMessage) (s storedCaller) {
	_ = codec.Unmarshal(raw, &s) // the runtime's own record
	return s
}

// requestOf returns the HTTP request that v came with, nil if there was none or another
// process had it.
func requestOf(v any) *http.Request {
	switch v := v.(type) {
	case *caller:
		return v.r
	case *anybody:
		return (*http.Request)(v)
	}
	return nil
}

// headerOf returns the headers of the request that v came with, as far as this process has them.
func headerOf(v any) http.Header {
	switch v := v.(type) {
	case *carriedCaller:
		return v.passed
	case *carriedAnybody:
		return v.passed
	}
	if r := requestOf(v); r != nil {
		return r.Header
	}
	return nil
}

// secretHeaders are never stored.
var secretHeaders = []string{"Authorization", "Cookie", "Mcp-Session-Id", "Proxy-Authorization", "Set-Cookie"}

// storedHeaders returns the names in their canonical form, or an error if one of them is the
// name of a secret.
func storedHeaders(names []string) ([]string, error) {
	var all []string
	for _, name := range names {
		name = http.CanonicalHeaderKey(name)
		if slices.Contains(secretHeaders, name) {
			return nil, fmt.Errorf("HTTP.StoredHeaders: %s holds secrets, and is not stored", name)
		}
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all, nil
}

// weightsOf are weights by account. An error names the first that cannot be.
func weightsOf(names map[string]int) (quota.Weights, error) {
	w := make(quota.Weights, len(names))
	for _, name := range slices.Sorted(maps.Keys(names)) {
		weight := names[name]
		if weight < 1 || weight > quota.MostWeight {
			return nil, fmt.Errorf("troupe: Shared.Weights: %q has weight %d: want 1 to %d", name, weight, quota.MostWeight)
		}
		c, err := clientOf(name)
		if err != nil {
			return nil, fmt.Errorf("troupe: Shared.Weights: %w", err)
		}
		if _, twice := w[c]; twice {
			return nil, fmt.Errorf("troupe: Shared.Weights: %q is there under another name, too", name)
		}
		w[c] = weight
	}
	return w, nil
}

// clientOf is the account that a weight's name stands for.
func clientOf(name string) (quota.Client, error) {
	if p, err := netip.ParsePrefix(name); err == nil && p.Bits() == 64 && p.Addr().Is6() {
		return quota.Client{Tenant: anonymous, Address: p.Masked().Addr().String()}, nil
	} else if err == nil {
		return quota.Client{}, fmt.Errorf("%q is no account: want an IPv4 address, or an IPv6 network of 64 bits", name)
	}
	if a, err := netip.ParseAddr(name); err == nil {
		return quota.Client{Tenant: anonymous, Address: quota.Network(a).String()}, nil
	}
	p := Principal{Subject: name}
	if of, is := strings.CutPrefix(name, "machine "); is && strings.Contains(of, " ") {
		p.Machine, name = true, of
	}
	if issuer, subject, both := strings.Cut(name, " "); both {
		p.Issuer, p.Subject = issuer, subject
	}
	if p.Subject == "" {
		return quota.Client{}, fmt.Errorf("%q names no principal", name)
	}
	return quota.Client{Tenant: p.tenantHash()}, nil
}
