// Package server tests the features of servers over the wire: tools, prompts, resources, completion, logging and
// progress, and many servers that are mounted in one runtime and unmounted again.
package server
