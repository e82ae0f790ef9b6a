// Command watch writes the dashboards of deploy/grafana:
//
//	go -C deploy run ./watch
//
// Its tests hold them to what it writes, and hold what is shipped for watching Troupe (deploy/prometheus, deploy/grafana) to
// docs/metrics.md and docs/runbook.md: each query parses and names metrics and labels that are documented, and each alert has its
// entry. They run promtool, from Debian's package prometheus. With the tag full they have Prometheus scrape real processes, make the
// failures that the alerts are for, and run each query of each panel.
//
// The dashboards are of plain structs. Grafana's own SDK (grafana-foundation-sdk) has some hundred thousand generated lines for what
// takes two hundred here, at a version 0.0: their model changes with releases of Grafana, and these few members of it have not for years.
package main
