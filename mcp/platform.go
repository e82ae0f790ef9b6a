//go:build 386 || arm || mips || mipsle

package mcp

// Troupe counts bytes and positions in int, and takes it to have 64 bits. A build for a platform where it has 32 ends with
// this sentence, in the package that all others import.
const _ = Troupe_needs_a_64_bit_platform
