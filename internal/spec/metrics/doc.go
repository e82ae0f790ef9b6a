// Package metrics holds docs/metrics.md to the metrics that a runtime makes. It holds tests only.
package metrics
