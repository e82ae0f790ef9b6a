// Package task tests durable tasks over the wire: those of 2025-11-25, which are a part of the protocol, and those of the
// extension io.modelcontextprotocol/tasks, which took their place in 2026-07-28. A task is one thing with two faces, so the
// tests make it with one of them and look at it with the other, too.
package task
