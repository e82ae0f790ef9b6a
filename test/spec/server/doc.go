// Package server tests what a program makes of a server, over the wire: tools, prompts, resources, completion, logging and
// progress; what handlers get from Go types, and the schemas that stand for those; middleware, methods of the program's
// own, and what each caller may see; and many servers that are mounted in one runtime and unmounted again. It holds
// docs/metrics.md to the metrics that a runtime makes.
package server
