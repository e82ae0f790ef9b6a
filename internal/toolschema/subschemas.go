package toolschema

import "fmt"

// Bounds of a schema that is registered (2026-07-28, basic/index, "Composition-Keyword
// Resource Use"): another server may send a schema that takes very long to compile.
const (
	maxSchemaDepth = 64
	maxSubschemas  = 10000
)

// holds is what the value of a keyword of JSON Schema may be.
type holds uint8

const (
	holdsUnknown holds = iota // not a keyword of any draft: $ref may lead into it
	holdsData
	holdsSchema // one, or a list of them
	holdsSchemas
	holdsProperties
)

// keywords are those of all drafts from 4 on whose values are objects or lists.
var keywords = map[string]holds{
	"const": holdsData, "enum": holdsData, "default": holdsData, "examples": holdsData, "type": holdsData, "required": holdsData,
	"dependentRequired": holdsData, "$vocabulary": holdsData,

	"not": holdsSchema, "if": holdsSchema, "then": holdsSchema, "else": holdsSchema, "allOf": holdsSchema, "anyOf": holdsSchema,
	"oneOf": holdsSchema, "items": holdsSchema, "prefixItems": holdsSchema, "additionalItems": holdsSchema, "contains": holdsSchema,
	"unevaluatedItems": holdsSchema, "additionalProperties": holdsSchema, "propertyNames": holdsSchema, "unevaluatedProperties": holdsSchema,
	"contentSchema": holdsSchema,

	"$defs": holdsSchemas, "definitions": holdsSchemas, "patternProperties": holdsSchemas, "dependentSchemas": holdsSchemas, "dependencies": holdsSchemas,

	"properties": holdsProperties,
}

// A schemaWalk goes through the schemas in a document.
type schemaWalk struct {
	count int
	// visit is called for each schema. path is the chain of properties that leads to it; it
	// is nil for the root and for schemas reached in another way. It is valid until visit
	// returns.
	visit func(schema map[string]any, path []string) error
}

// walkDocument visits the schemas of a decoded document. It fails as visit does, and when a bound is
// exceeded.
func (w *schemaWalk) walkDocument(doc any) error { return w.visitSchema(doc, []string{}, 1) }

func (w *schemaWalk) visitSchema(v any, path []string, depth int) error {
	if depth > maxSchemaDepth {
		return fmt.Errorf("schemas are nested more than %d deep", maxSchemaDepth)
	}
	s, ok := v.(map[string]any)
	if !ok {
		return nil // true or false
	}
	if w.count++; w.count > maxSubschemas {
		return fmt.Errorf("it holds more than %d schemas", maxSubschemas)
	}
	var chain []string
	if len(path) > 0 {
		chain = path
	}
	if err := w.visit(s, chain); err != nil {
		return err
	}
	for keyword, value := range s {
		var err error
		switch keywords[keyword] {
		case holdsData:
		case holdsSchema, holdsUnknown:
			err = w.visitEach(value, depth+1)
		case holdsSchemas:
			members, _ := value.(map[string]any)
			for _, m := range members {
				if err = w.visitEach(m, depth+1); err != nil {
					break
				}
			}
		case holdsProperties:
			members, _ := value.(map[string]any)
			for name, m := range members {
				var to []string
				if path != nil {
					to = append(path[:len(path):len(path)], name)
				}
				if err = w.visitSchema(m, to, depth+1); err != nil {
					break
				}
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// visitEach visits a schema, or a list of them, that no property leads to.
func (w *schemaWalk) visitEach(v any, depth int) error {
	list, ok := v.([]any)
	if !ok {
		return w.visitSchema(v, nil, depth)
	}
	if depth > maxSchemaDepth {
		return fmt.Errorf("schemas are nested more than %d deep", maxSchemaDepth)
	}
	for _, e := range list {
		if err := w.visitEach(e, depth+1); err != nil {
			return err
		}
	}
	return nil
}
