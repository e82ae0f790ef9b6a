package interop

import (
	"os"
	"path/filepath"
	"testing"
)

// accepted is a form that is filled in.
func accepted(content map[string]any) *userAnswer {
	return &userAnswer{Action: "accept", Content: content}
}

// walkEverything is the walk through server-everything: each tool, prompt, resource, question, subscription, completion and task.
func walkEverything() *walk {
	const text, blob, gzipped = "demo://resource/dynamic/text/1", "demo://resource/dynamic/blob/2", "demo://resource/session/note.gz"
	visit := map[string]any{"url": "https://example.com/in", "message": "Sign in.", "elicitationId": "in-1"}
	first := map[string]any{"url": "https://example.com/in", "message": "Sign in.", "elicitationId": "in-2", "errorPath": true}
	gzip := map[string]any{"name": "note.gz", "data": "data:text/plain,to%20be%20or%20not%20to%20be"}
	python, snake := map[string]any{"topic": "python", "ambiguous": true}, accepted(map[string]any{"interpretation": "snake"})
	who := map[string]any{"prompt": "who are you", "maxTokens": 10}
	return &walk{
		Roots: []root{{"file:///home/ada", "home"}},
		Prompts: map[string]map[string]string{
			"args-prompt":        {"city": "Paris", "state": "Texas"},
			"completable-prompt": {"department": "Sales", "name": "Bob"},
			"resource-prompt":    {"resourceType": "Blob", "resourceId": "3"},
		},
		Values: map[string][]string{"department": {"", "S"}, "name": {"", "D"}, "resourceType": {"", "T"}, "resourceId": {"7", "x"}, "city": {"P"}},
		Reads:  []string{"demo://resource/static/document/nothing.md"},
		Steps: []walkStep{
			// The server asks for roots by itself, a while after the session began and when they change. Hosted, it has them with the next call.
			{Call: "get-roots-list", Logs: []string{"Roots updated: 1"}, Again: true, Only: legacyOnly},
			{Call: "get-roots-list", As: "roots", Only: modernOnly, Contains: "Current MCP Roots (1 total):\\n\\n1. home"},
			{AddRoot: &root{"file:///home/bob", "guest"}, Only: legacyOnly},
			{Call: "get-sum", Args: map[string]any{"a": 1, "b": 1}, As: "while roots change", Logs: []string{"Roots updated: 2"}, Again: true, Only: legacyOnly},
			{Call: "get-roots-list", As: "two roots", Only: legacyOnly},
			{Call: "echo", Args: map[string]any{"message": "<b>\u2028ä</b>"}},
			{Call: "echo", Args: map[string]any{"message": 1}},
			{Call: "echo"},
			{Call: "get-sum", Args: map[string]any{"a": 1.5, "b": 2}},
			{Call: "get-tiny-image"},
			{Call: "get-env", Environment: true},
			{Call: "get-structured-content", Args: map[string]any{"location": "Chicago"}},
			{Call: "get-structured-content", Args: map[string]any{"location": "nowhere"}},
			{Call: "get-annotated-message", Args: map[string]any{"messageType": "error", "includeImage": true}},
			{Call: "get-annotated-message", Args: map[string]any{"messageType": "debug"}},
			{Call: "get-resource-links", Args: map[string]any{"count": 3}},
			{Call: "get-resource-reference", Args: map[string]any{"resourceType": "Blob", "resourceId": 4}},
			{Call: "get-resource-reference", Args: map[string]any{"resourceType": "Text", "resourceId": -1}},
			{Call: "gzip-file-as-resource", Args: gzip, Changed: true},
			{Call: "gzip-file-as-resource", Args: map[string]any{"name": "note.gz", "data": "data:text/plain,that%20is", "outputType": "resource"}},
			{Call: "gzip-file-as-resource", Args: map[string]any{"data": "file:///etc/passwd"}},
			{Call: "trigger-long-running-operation", Args: map[string]any{"duration": 0.1, "steps": 4}, Progress: 4},
			{Call: "trigger-elicitation-request", Answer: accepted(map[string]any{"name": "Ada", "check": true, "integer": 7})},
			{Call: "trigger-elicitation-request", As: "who declines", Answer: &userAnswer{Action: "decline"}},
			{Call: "trigger-elicitation-request", As: "who cancels", Answer: &userAnswer{Action: "cancel"}},
			{Call: "trigger-elicitation-request", As: "who refuses", Answer: &userAnswer{Action: "refuse"}, Only: legacyOnly},
			{Call: "trigger-url-elicitation", Args: visit},
			{Call: "trigger-url-elicitation", Args: visit, As: "who does not visit", Answer: &userAnswer{Action: "decline"}},
			{Call: "trigger-url-elicitation", Args: first, As: "who has not visited", Only: legacyOnly},
			{Call: "trigger-url-elicitation", Args: first, As: "who has visited", Only: legacyOnly},
			{Call: "trigger-url-elicitation", Args: first, As: "who visits both", Only: modernOnly, Contains: "then retry the request"}, // as a question, where there is no such error
			{Call: "trigger-sampling-request", Args: who},
			{Call: "trigger-sampling-request", Args: who, As: "a model that refuses", Answer: &userAnswer{Action: "refuse"}, Only: legacyOnly},
			// It has to become a task. In 2025-11-25 its client asks for one; in 2026-07-28 it need not know.
			{Call: "simulate-research-query", Args: python, Task: true, Answer: snake, Contains: "# Research Report: python (snake)"},
			{Subscribe: text, Logs: []string{"Received Subscribe"}, Only: legacyOnly},
			{Subscribe: text, As: "follow", Only: modernOnly, Contains: "{}"},
			{Call: "toggle-subscriber-updates", As: "updates", Updated: []string{text}},
			{Call: "toggle-subscriber-updates", As: "no updates"},
			{Unsubscribe: text, Logs: []string{"Received Unsubscribe"}, Only: legacyOnly},
			{Unsubscribe: text, As: "do not follow", Only: modernOnly, Contains: "{}"},
			{Subscribe: blob},
			{Call: "toggle-subscriber-updates", As: "updates of another", Updated: []string{blob}},
			{Call: "toggle-subscriber-updates", As: "no updates of another"},
			{Level: "debug", Only: legacyOnly},
			{Call: "toggle-simulated-logging", As: "logging", Logs: []string{"message"}, Only: legacyOnly},
			{Call: "toggle-simulated-logging", As: "no logging", Only: legacyOnly},
			// Without a session a client hears of what comes during a call, and over Streamable HTTP the server sends it on another stream.
			{Call: "toggle-simulated-logging", As: "logging in a call", Logs: []string{"message"}, Again: true, Only: modernOnly, Contains: "any message"},
		},
	}
}

// walkFiles is the walk through server-filesystem, with files in a directory of the walk's own.
func walkFiles(t *testing.T, dir string) *walk {
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{"play.txt": "All the world's a stage,\nand all the men and women merely players.\n", "dot.png": "\x89PNG\r\n\x1a\n", "bytes": "\x00\xff"} {
		if err := os.WriteFile(at(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	edit := func(before, after string) []any { return []any{map[string]any{"oldText": before, "newText": after}} }
	return &walk{
		Steps: []walkStep{
			{Call: "list_allowed_directories"},
			{Call: "read_file", Args: map[string]any{"path": at("play.txt")}},
			{Call: "read_text_file", Args: map[string]any{"path": at("play.txt"), "head": 1}},
			{Call: "read_text_file", Args: map[string]any{"path": at("play.txt"), "tail": 1, "head": 1}},
			{Call: "read_text_file", Args: map[string]any{"path": "/etc/passwd"}},
			{Call: "read_media_file", Args: map[string]any{"path": at("dot.png")}},
			{Call: "read_media_file", Args: map[string]any{"path": at("bytes")}},
			{Call: "read_multiple_files", Args: map[string]any{"paths": []string{at("play.txt"), at("none")}}},
			{Call: "write_file", Args: map[string]any{"path": at("new.txt"), "content": "to be"}},
			{Call: "edit_file", Args: map[string]any{"path": at("new.txt"), "edits": edit("to be", "or not"), "dryRun": true}},
			{Call: "edit_file", Args: map[string]any{"path": at("new.txt"), "edits": edit("to be", "or not")}},
			{Call: "edit_file", Args: map[string]any{"path": at("new.txt"), "edits": edit("to be", "")}},
			{Call: "create_directory", Args: map[string]any{"path": at("acts/first")}},
			{Call: "move_file", Args: map[string]any{"source": at("new.txt"), "destination": at("acts/scene.txt")}},
			{Call: "list_directory", Args: map[string]any{"path": at("acts")}},
			{Call: "list_directory_with_sizes", Args: map[string]any{"path": dir, "sortBy": "size"}},
			{Call: "directory_tree", Args: map[string]any{"path": at("acts")}},
			{Call: "search_files", Args: map[string]any{"path": dir, "pattern": "**/scene.*"}},
			{Call: "get_file_info", Args: map[string]any{"path": at("play.txt")}},
		},
		hidden: map[string]string{dir: "<directory>"},
	}
}

// walkMemory is the walk through server-memory.
func walkMemory() *walk {
	const graph = "memory://knowledge-graph"
	changes := []string{graph}
	entity := map[string]any{"name": "Ada", "entityType": "person", "observations": []string{"writes programs"}}
	relation := []any{map[string]any{"from": "Ada", "to": "Ada", "relationType": "knows"}}
	return &walk{
		Reads: []string{"memory://nothing"},
		Steps: []walkStep{
			{Subscribe: graph},
			{Call: "create_entities", Args: map[string]any{"entities": []any{entity}}, Updated: changes},
			{Call: "create_relations", Args: map[string]any{"relations": relation}, Updated: changes},
			{Call: "add_observations", Args: map[string]any{"observations": []any{map[string]any{"entityName": "Ada", "contents": []string{"counts"}}}}, Updated: changes},
			{Call: "add_observations", Args: map[string]any{"observations": []any{map[string]any{"entityName": "Eve", "contents": []string{}}}}},
			{Call: "read_graph"},
			{Call: "search_nodes", Args: map[string]any{"query": "counts"}},
			{Call: "open_nodes", Args: map[string]any{"names": []string{"Ada"}}},
			{Unsubscribe: graph},
			{Call: "delete_observations", Args: map[string]any{"deletions": []any{map[string]any{"entityName": "Ada", "observations": []string{"counts"}}}}},
			{Call: "delete_relations", Args: map[string]any{"relations": relation}},
			{Call: "read_graph", As: "what is left of the graph"},
			{Call: "delete_entities", Args: map[string]any{"entityNames": []string{"Ada"}}},
			{Call: "read_graph", As: "an empty graph"},
		},
	}
}

// walkThoughts is the walk through server-sequential-thinking, which numbers what it is told.
func walkThoughts() *walk {
	thought := func(text string, number int) map[string]any {
		return map[string]any{"thought": text, "thoughtNumber": number, "totalThoughts": 2, "nextThoughtNeeded": number < 2}
	}
	return &walk{
		Steps: []walkStep{
			{Call: "sequentialthinking", Args: thought("to be", 1)},
			{Call: "sequentialthinking", Args: thought("or not", 3)},
			{Call: "sequentialthinking", Args: map[string]any{"thought": "to be", "thoughtNumber": 1, "totalThoughts": 1, "nextThoughtNeeded": true, "branchFromThought": 1, "branchId": "b"}},
			{Call: "sequentialthinking", Args: map[string]any{"thought": "nothing else"}},
		},
	}
}
