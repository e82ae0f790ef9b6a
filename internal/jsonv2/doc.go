// Package jsonv2 encodes and decodes payloads by json/v2, github.com/go-json-experiment/json, in the place of sonic. It
// is the whole of what package codec needs of that module, and codec imports it only in builds without sonic.
//
// Values have the JSON that encoding/json gives them, with the differences that the comment of package codec lists: names
// are matched exactly, nil slices and maps are written as [] and {}, map keys are sorted, HTML's characters stay as they
// are, and numbers decoded into an interface keep their digits as a json.Number of the standard library. In addition
// an object that has a member twice is refused where it is decoded into a struct or a map.
//
// # Concurrency
//
// A [Codec] may be used from any goroutine. What it decoded never refers to the data.
package jsonv2
