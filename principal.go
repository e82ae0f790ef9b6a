package troupe

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"

	"github.com/troupe-run/troupe/codec"
)

// Principal is who makes a request. Sessions, streams and cursors of one
// principal do not exist for another.
type Principal struct {
	Issuer  string `json:"issuer"`  // who vouches for the subject
	Subject string `json:"subject"` // unique at its issuer; empty means nobody in particular
	// Claims are handed to handlers as they are. They are stored with calls that
	// may run again, so that they must hold no secrets.
	Claims json.RawMessage `json:"claims,omitempty"`
}

// anonymous is the tenant of everybody who is nobody in particular.
const anonymous = "anon"

var tenantEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// tenant is the part of keys and subjects that stands for a principal.
func (p *Principal) tenant() string {
	if p.Subject == "" && p.Issuer == "" {
		return anonymous
	}
	b := binary.BigEndian.AppendUint64(nil, uint64(len(p.Issuer)))
	b = append(b, p.Issuer...)
	b = append(b, p.Subject...)
	sum := sha256.Sum256(b)
	return tenantEncoding.EncodeToString(sum[:])[:26]
}

// caller is what the transport carries for an authenticated request.
type caller struct {
	Principal
	key string
}

func principalOf(v any) Principal {
	switch v := v.(type) {
	case *caller:
		return v.Principal
	case json.RawMessage:
		var p Principal
		_ = codec.Unmarshal(v, &p) // the runtime's own record
		return p
	}
	return Principal{}
}
