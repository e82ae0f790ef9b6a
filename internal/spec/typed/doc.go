// Package typed has tests of what handlers get from Go types: forms, results with content of their own, inferred schemas,
// and records of package slog.
package typed
