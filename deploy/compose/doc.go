// Package compose has files for docker compose: one node, and a fleet with what it needs. README.md
// says how to use them. The package has no code: its tests hold the files to rules, and run their
// services as processes.
package compose
