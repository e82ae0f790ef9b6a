package codecs

import (
	"bytes"
	std "encoding/json"
	"errors"
	"unsafe"

	"github.com/bytedance/sonic"
	"github.com/bytedance/sonic/encoder"
	json2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-json"

	"github.com/troupe-run/troupe/codec"
)

// parts are what a dispatcher needs of a message before it knows the method: the id and params as they were sent.
type parts struct {
	id, method, params []byte
}

// A contestant does the work of a dispatcher, the best way that its public functions offer. It belongs to one goroutine, and what it returns is valid
// until its next use, as where a dispatcher takes it from a pool.
type contestant struct {
	name string

	// envelope finds the parts of a message.
	envelope func(data []byte) (parts, error)

	// call finds the parts, the name of the tool and its arguments as they were sent.
	call func(data []byte) (p parts, tool string, args []byte, err error)

	// decode reads the arguments that call returned.
	decode func(args []byte, v any) error

	// respond appends the answer to a request. All of them write into a buffer that is used again.
	respond func(dst, id []byte, r *result) ([]byte, error)
}

// contestants returns new ones. encoding/json/v2 is the module github.com/go-json-experiment/json of the version in go.mod, since the package of Go
// 1.26 exists only under GOEXPERIMENT=jsonv2, which makes another encoding/json, too.
func contestants() []contestant {
	return []contestant{
		troupe(),
		library("sonic", sonic.ConfigDefault.Unmarshal, sonicEncode(0)),
		library("sonic-std", sonic.ConfigStd.Unmarshal, sonicEncode(encoder.EscapeHTML|encoder.SortMapKeys|encoder.CompactMarshaler|encoder.ValidateString)),
		library("sonic-fastest", sonicInPlace, sonicEncode(encoder.NoValidateJSONMarshaler)),
		library("goccy", json.Unmarshal, func(dst []byte, v any) ([]byte, error) {
			b := bytes.NewBuffer(dst)
			err := json.NewEncoder(b).Encode(v)
			return b.Bytes(), err
		}),
		library("encoding/json", std.Unmarshal, func(dst []byte, v any) ([]byte, error) {
			b := bytes.NewBuffer(dst)
			err := std.NewEncoder(b).Encode(v)
			return b.Bytes(), err
		}),
		library("json/v2", func(data []byte, v any) error { return json2.Unmarshal(data, v) }, json2Encode),
		library("json/v2-dup", func(data []byte, v any) error { return json2.Unmarshal(data, v, duplicates) }, json2Encode),
	}
}

// duplicates takes from json/v2 the search for members that occur twice, which no other contestant makes below the envelope.
var duplicates = jsontext.AllowDuplicateNames(true)

func json2Encode(dst []byte, v any) ([]byte, error) {
	b := bytes.NewBuffer(dst)
	err := json2.MarshalWrite(b, v, duplicates)
	return b.Bytes(), err
}

// sonicInPlace is sonic's fastest way: without checks of what it skips, and without the copy of the message that Unmarshal makes, so that what it
// returns refers to the message.
func sonicInPlace(data []byte, v any) error {
	return sonic.ConfigFastest.UnmarshalFromString(unsafe.String(unsafe.SliceData(data), len(data)), v)
}

// sonicEncode encodes with the options of one of sonic's configurations, into a buffer that is used again: the configurations have no such function.
func sonicEncode(o encoder.Options) func([]byte, any) ([]byte, error) {
	return func(dst []byte, v any) ([]byte, error) {
		err := encoder.EncodeInto(&dst, v, o|encoder.NoEncoderNewline)
		return dst, err
	}
}

var (
	errVersion = errors.New("no JSON-RPC 2.0")
	errName    = errors.New("no name of a tool")
)

// library makes a contestant of the two functions of a library. It reads into structures that are used again: those that copy raw members then copy
// them into the same memory each time.
func library(name string, unmarshal func([]byte, any) error, encode func([]byte, any) ([]byte, error)) contestant {
	var r request
	var c callParams
	envelope := func(data []byte) (parts, error) {
		r = request{ID: r.ID[:0], Params: r.Params[:0]}
		if err := unmarshal(data, &r); err != nil {
			return parts{}, err
		}
		if r.Version != "2.0" {
			return parts{}, errVersion
		}
		return parts{r.ID, unsafe.Slice(unsafe.StringData(r.Method), len(r.Method)), r.Params}, nil
	}
	return contestant{
		name:     name,
		envelope: envelope,
		call: func(data []byte) (parts, string, []byte, error) {
			p, err := envelope(data)
			if err != nil {
				return parts{}, "", nil, err
			}
			c = callParams{Arguments: c.Arguments[:0]}
			err = unmarshal(p.params, &c)
			return p, c.Name, c.Arguments, err
		},
		decode: unmarshal,
		respond: func(dst, id []byte, r *result) ([]byte, error) {
			return encode(dst, &response{"2.0", id, r})
		},
	}
}

// troupe does what the runtime does.
func troupe() contestant {
	var m codec.Message
	envelope := func(data []byte) (parts, error) {
		if err := codec.Scan(data, &m, codec.Limits{}); err != nil {
			return parts{}, err
		}
		return parts{m.ID, m.Method, m.Params}, nil
	}
	return contestant{
		name:     "troupe",
		envelope: envelope,
		call: func(data []byte) (parts, string, []byte, error) {
			p, err := envelope(data)
			if err != nil {
				return parts{}, "", nil, err
			}
			tool, ok := codec.Str(m.Name)
			if !ok {
				return parts{}, "", nil, errName
			}
			return p, tool, m.Arguments, nil
		},
		decode: codec.UnmarshalValid,
		respond: func(dst, id []byte, r *result) ([]byte, error) {
			dst = append(dst, `{"jsonrpc":"2.0","id":`...)
			dst = append(dst, id...)
			dst, err := codec.AppendMarshal(append(dst, `,"result":`...), r)
			return append(dst, '}'), err
		},
	}
}
