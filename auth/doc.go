// Package auth verifies access tokens for the resource server of OAuth 2.1 that an MCP server is. An [Authority] says whose a token is, or with which status, challenge and reason the request is
// refused. It finds the keys of its issuers, keeps them while an issuer is down, and forgets those that are gone. It writes no response: the caller does.
//
// # What a token must be
//
// Everything that needs no key is checked first, so that an issuer is asked for keys only if a token of it could count.
//
//   - A JWT in compact form of at most 16 KiB, of which no member comes twice, nested 16 deep at most: RFC 7515, 5.2; RFC 7519, 4 and 7.2.
//   - Signed with RS256 to RS512, PS256 to PS512, ES256 to ES512 or EdDSA, by a key of the issuer that allows it by kty, crv, alg, use and key_ops. RSA has 2,048 bits or more: RFC 8725, 3.1 and 3.2;
//     RFC 7518, 3.3; RFC 7517, 4.
//   - Neither encrypted nor with a key of its own (jwk, jku, x5u, x5c), nor with an extension (crit, b64): RFC 8725, 3.10; RFC 7515, 4.1.11.
//   - Of a typ at+jwt, JWT or none: RFC 9068, 4. No ID token or logout token, by their claims at_hash, c_hash, nonce and events, token_use and typ: RFC 8725, 2.8.
//   - Of an issuer of the configuration, which iss names byte by byte: RFC 9068, 4.
//   - In time by exp, which it must have, nbf and iat, give or take [Leeway]: RFC 7519, 4.1.4 to 4.1.6.
//   - For this server: RFC 9068, 4; RFC 8707, 2. See [Issuer] for those that know no audiences.
//   - Not bound by cnf, as nobody has proven the key: RFC 7800; RFC 9449, 7.2.
//   - Of a subject or a client: RFC 9068, 2.2 and 5.
//
// A token that is no JWT is put to the issuer that has an [Introspection] (RFC 7662), and what that says is held to the same rules. The answer counts for 30 seconds.
//
// # Keys
//
// Keys are fetched when a token comes, and from then on in the background every 5 minutes to 1 hour, as the issuer's Cache-Control asks. A token with a key that is not there asks for them, too, at
// most once in 10 seconds for each issuer, with one request for all who wait. From the moment when a key is gone, nothing that it has signed counts, not even in verdicts that callers hold. While an
// issuer cannot be reached, its last good keys serve for 24 hours, and they lie in [Config].Cache for processes that start meanwhile. Without keys the answer is a 503 and never a 401; so it is for
// a key that the issuer may have made since it was asked last.
//
// # API keys
//
// A token that begins with [APIKeyPrefix] is put to [Config].APIKeys, if that is set. One without the checksum of a key is refused at once. What the [KeyStore] says counts for 1 second, and for another
// one while it is asked again in the background: a key that is revoked there is refused within 2 seconds. While the store returns errors, what was found counts on; a key that was not found yet is a
// 503. A digest that the store does not know is remembered for 1 second, apart from those that it knows.
//
// # Guarantees
//
//   - [New] does no I/O, and nothing waits for an issuer but a token that needs it.
//   - Neither an error, a log record, a [Verdict] nor the [KeyCache] has a token. A [Last] does, for its connection.
//   - Neither Host nor X-Forwarded-* is read.
//   - The text for clients is one of few. What did not fit is in [Refusal.Detail], for the log.
//
// All methods are safe for concurrent use.
package auth
