package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/go-jose/go-jose/v4"
)

// keyKind is the kind of a key that an algorithm needs.
type keyKind string

const (
	kindRSA     keyKind = "RSA"
	kindP256    keyKind = "P-256"
	kindP384    keyKind = "P-384"
	kindP521    keyKind = "P-521"
	kindEd25519 keyKind = "Ed25519"
)

const (
	minRSA        = 2048 // bits of an RSA key at least (RFC 7518, 3.3)
	maxKeys       = 256  // usable keys of a set
	maxAnyKey     = 16   // keys that are tried for a token that names none
	allowsTo      = "verify"
	forSignatures = "sig"
)

// key is a public key of an issuer.
type key struct {
	kid    string // "" without
	alg    string // the only algorithm that it may be used with, "" for any of its kind
	kind   keyKind
	public any
	id     [sha256.Size]byte // of all of the above
	// gone is set when the issuer has the key no more: what it has verified does not count from then on.
	gone atomic.Bool
}

// fitsAlgorithm reports whether the key may have made a signature with the algorithm.
func (k *key) fitsAlgorithm(alg string) bool {
	return k.kind == algorithms[alg] && (k.alg == "" || k.alg == alg || k.alg == "Ed25519" && alg == "EdDSA") // RFC 9864, 2.2
}

// keySet is what an issuer has said of itself.
type keySet struct {
	keys     []*key
	metadata []byte // its metadata as it came; nil if the configuration says where its keys are
}

// findKeys returns the keys that may have signed a token: those of its kid, or those of its algorithm if it has none.
func (s *keySet) findKeys(kid, alg string) (found []*key) {
	if s == nil {
		return nil
	}
	for _, k := range s.keys {
		if k.fitsAlgorithm(alg) && (kid == "" || k.kid == kid) && len(found) < maxAnyKey {
			found = append(found, k)
		}
	}
	return found
}

// replaceKeys takes over the keys of the old set that the new one has, too, and returns those that it has not, which are gone.
func (s *keySet) replaceKeys(old *keySet) (gone []*key) {
	if old == nil {
		return nil
	}
	for _, k := range old.keys {
		n := slices.IndexFunc(s.keys, func(o *key) bool { return o.id == k.id })
		if n >= 0 {
			s.keys[n] = k
			continue
		}
		k.gone.Store(true)
		gone = append(gone, k)
	}
	return gone
}

// readKeys reads a JWK set (RFC 7517, 5). Keys that cannot verify a signature of ours are left out: those of another use, kind or size, and broken ones.
func readKeys(data []byte) ([]*key, error) {
	set, err := readObject(data)
	if err != nil {
		return nil, fmt.Errorf("key set: %w", err)
	}
	var all []json.RawMessage
	if err := json.Unmarshal(set["keys"], &all); err != nil || all == nil {
		return nil, errors.New("key set: it has no array of keys")
	}
	keys := []*key{}
	for _, raw := range all {
		k := readKey(raw)
		if k == nil || slices.ContainsFunc(keys, func(o *key) bool { return o.id == k.id }) {
			continue
		}
		if len(keys) == maxKeys {
			return nil, fmt.Errorf("key set: it has more than %d keys", maxKeys)
		}
		keys = append(keys, k)
	}
	return keys, nil
}

// privateMembers are those of a key that is no secret any more, and of symmetric ones (RFC 7518, 6).
var privateMembers = []string{"d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv"}

// readKey reads a JWK (RFC 7517, 4), and returns nil if it cannot be used.
func readKey(raw json.RawMessage) *key {
	o, err := readObject(raw)
	if err != nil || slices.ContainsFunc(privateMembers, func(m string) bool { _, ok := o[m]; return ok }) {
		return nil
	}
	kid, _, badID := o.text("kid")
	alg, _, badAlg := o.text("alg")
	use, hasUse, badUse := o.text("use")
	ops, hasOps, badOps := o.list("key_ops")
	if errors.Join(badID, badAlg, badUse, badOps) != nil || hasUse && use != forSignatures || hasOps && !slices.Contains(ops, allowsTo) || len(kid) > maxKeyID {
		return nil
	}
	// Certificates and other members say nothing that is needed, and could only make the key unreadable.
	material := o.subset([]string{"kty", "crv", "n", "e", "x", "y"})
	var jwk jose.JSONWebKey
	if json.Unmarshal(material, &jwk) != nil {
		return nil
	}
	k := &key{kid: kid, alg: alg, public: jwk.Key}
	switch p := jwk.Key.(type) {
	case *rsa.PublicKey:
		if p.N.BitLen() >= minRSA {
			k.kind = kindRSA
		}
	case *ecdsa.PublicKey:
		k.kind = keyKind(p.Curve.Params().Name)
	case ed25519.PublicKey:
		k.kind = kindEd25519
	}
	if k.kind == "" {
		return nil
	}
	print, err := jwk.Thumbprint(crypto.SHA256)
	if err != nil {
		return nil
	}
	k.id = sha256.Sum256(fmt.Appendf(nil, "%q %q %x", kid, alg, print))
	return k
}
