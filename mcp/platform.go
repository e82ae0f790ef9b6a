//go:build 386 || arm || mips || mipsle

package mcp

// Troupe counts bytes and positions in int, and needs 64 bits for that. On a platform
// whose int has 32 bits the build fails with this sentence, in the package that all
// others import.
const _ = Troupe_needs_a_64_bit_platform
