// Package batch tests JSON-RPC batches over the wire: those of 2025-03-26, and of sessions of 2024-11-05. It has tests of
// their answers, of batches that outlive their process, and of those that are refused.
package batch
