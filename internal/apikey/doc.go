// Package apikey keeps the API keys of a store: their records, what an operator does with them, and what an auth.Authority finds.
//
// # Records
//
// A key has the id that its first secret gives it: half of the SHA-256 of that secret, in base32. Under that id lies all that is known of the key, with the digests of its secrets. A secret that
// came by a rotation has a record of its own, under the id that it would give, which names the key: so the one of a secret is found by its digest in one read, or two. The key's record alone
// says which secrets count. It is changed by compare and swap, so that a key that one node revokes is not brought back by another one that rotates it, or notes its use.
//
// A secret is not kept, only its digest. A record of a key that has ended, and of one that is revoked, goes after a while by itself.
//
// All methods may be called from any goroutine.
package apikey
