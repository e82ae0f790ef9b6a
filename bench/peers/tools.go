package main

// The descriptions of the tools. echo returns a text, and count reports progress for each number as
// fast as its client takes it.
const (
	aboutEcho  = "Returns the text as it is."
	aboutCount = "Counts from 1, with a progress notification for each number."
)

// text is what echo takes.
type text struct {
	Text string `json:"text" jsonschema:"what to return"`
}

// number is what count takes.
type number struct {
	To int `json:"to" jsonschema:"the last number"`
}

// counted is what count returns.
const counted = "counted"
