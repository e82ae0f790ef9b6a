package greed

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"time"
)

const (
	// TokenIssuer is the issuer of access tokens that count, which nobody can reach.
	TokenIssuer = "http://127.0.0.1/soak"
	// TokenRate is how many bad tokens each principal sends in a second.
	TokenRate = 5000

	tokenWorkers = 32
)

// badTokens sends 5,000 access tokens a second that do not count.
var badTokens = attack{name: BadTokens, limits: refused, workers: tokenWorkers, begin: func(p *principal, n int) func() {
	due := time.Now()
	return func() {
		if late := time.Since(due); late > time.Second {
			due = time.Now() // what is lost shows in the rate
		}
		due = due.Add(tokenWorkers * time.Second / TokenRate)
		p.sleepFor(time.Until(due))
		p.postMessage(headerOf("Authorization", "Bearer "+badToken("http://"+p.addr+"/mcp", n)), requestOf(1, "ping", "{}"))
		n++
	}
}}

// badToken is the n-th token, of one of four kinds.
func badToken(resource string, n int) string {
	switch n % 4 {
	case 0: // signed by somebody else
		signature := make([]byte, ed25519.SignatureSize)
		_, _ = rand.Read(signature)
		return TokenText(TokenIssuer, resource) + "." + base64.RawURLEncoding.EncodeToString(signature)
	case 1: // of another issuer
		return TokenText("https://id.example.com", resource) + "." + rand.Text()
	case 2: // for another server
		return TokenText(TokenIssuer, resource+"/else") + "." + rand.Text()
	}
	return rand.Text()
}

// TokenText is a token without its signature, which no other has been equal to.
func TokenText(issuer, resource string) string {
	encode := base64.RawURLEncoding.EncodeToString
	claims := fmt.Sprintf(`{"iss":%q,"sub":"alice","client_id":"soak","aud":%q,"exp":%d,"jti":%q}`, issuer, resource, time.Now().Add(time.Hour).Unix(), rand.Text())
	return encode([]byte(`{"alg":"EdDSA","typ":"at+jwt","kid":"1"}`)) + "." + encode([]byte(claims))
}
