package toolschema_test

import (
	"fmt"
	"reflect"

	"github.com/troupe-run/troupe/internal/toolschema"
)

func Example() {
	type move struct {
		City string `json:"city" jsonschema:"where to go"`
		Days int    `json:"days" form:"min=1;max=30;default=7"`
	}
	inferred, err := toolschema.InferArguments(reflect.TypeFor[move]())
	if err != nil {
		panic(err)
	}
	fmt.Println(string(inferred.Shown))
	schema, _, err := inferred.Arguments()
	if err != nil {
		panic(err)
	}
	fmt.Println(schema.Validate([]byte(`{"city":"Oslo","days":3}`)))
	fmt.Println(schema.Validate([]byte(`{"days":"three"}`)))
	fmt.Println(string(inferred.Presets.Fill([]byte(`{"city":"Oslo"}`))))

	_, headers, err := toolschema.Arguments([]byte(`{"type":"object","properties":{"city":{"type":"string","x-mcp-header":"City"}}}`))
	if err != nil {
		panic(err)
	}
	fmt.Println(headers.Check(map[string][]string{"Mcp-Param-City": {"Oslo"}}, []byte(`{"city":"Rome"}`)))
	// Output:
	// {"type":"object","properties":{"city":{"type":"string","description":"where to go"},"days":{"type":"integer","default":7,"minimum":1,"maximum":30}},"required":["city"],"additionalProperties":false}
	// <nil>
	// at '': missing property 'city'; at '/days': got string, want integer
	// {"city":"Oslo","days":7}
	// the header Mcp-Param-City does not match the argument: city
}
