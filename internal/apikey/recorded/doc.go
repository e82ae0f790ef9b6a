// Package recorded fuzzes stored records of API keys. It stands beside the other tests of package apikey because those build on a store, and what is instrumented for fuzzing must be small.
package recorded
