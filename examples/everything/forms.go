package everything

import (
	"context"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

// addForms adds tools that show what a form can hold.
func addForms(s *troupe.Server) {
	add := func(name, description, message string, properties ...mcp.Property) {
		form := mcp.FormSchema{Properties: properties}
		troupe.AddTool(s, troupe.Tool{Name: name, Description: description, Needs: mcp.CapClientElicitationForm, Rerun: troupe.Safe},
			func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
				r, err := call.Elicit(ctx, message, form)
				if err != nil {
					return "", err
				}
				return "Elicitation completed: " + answered(r), nil
			})
	}
	add("test_elicitation_sep1034_defaults", "Asks with a form whose fields have defaults.",
		"Please review and update the form fields with defaults",
		mcp.Property{Name: "name", Schema: &mcp.StringSchema{Description: "User name", Default: new("John Doe")}},
		mcp.Property{Name: "age", Schema: &mcp.NumberSchema{Type: "integer", Description: "User age", Default: new(30.0)}},
		mcp.Property{Name: "score", Schema: &mcp.NumberSchema{Description: "User score", Default: new(95.5)}},
		mcp.Property{Name: "status", Schema: &mcp.EnumSchema{Description: "User status", Enum: []string{"active", "inactive", "pending"}, Default: new("active")}},
		mcp.Property{Name: "verified", Schema: &mcp.BooleanSchema{Description: "Verification status", Default: new(true)}},
	)

	options := []string{"option1", "option2", "option3"}
	titled := []mcp.EnumOption{{Const: "value1", Title: "First Option"}, {Const: "value2", Title: "Second Option"}, {Const: "value3", Title: "Third Option"}}
	add("test_elicitation_sep1330_enums", "Asks with a form that has every kind of choice.",
		"Please select options from the enum fields",
		mcp.Property{Name: "untitledSingle", Schema: &mcp.EnumSchema{Description: "One of several", Enum: options}},
		mcp.Property{Name: "titledSingle", Schema: &mcp.TitledEnumSchema{Description: "One of several with titles", OneOf: titled}},
		mcp.Property{Name: "legacyEnum", Schema: &mcp.LegacyEnumSchema{Description: "One of several with titles, as older clients know it",
			Enum: []string{"opt1", "opt2", "opt3"}, EnumNames: []string{"Option One", "Option Two", "Option Three"}}},
		mcp.Property{Name: "untitledMulti", Schema: &mcp.MultiEnumSchema{Description: "Any of several", Items: mcp.EnumItems{Enum: options}}},
		mcp.Property{Name: "titledMulti", Schema: &mcp.TitledMultiEnumSchema{Description: "Any of several with titles", Items: mcp.TitledEnumItems{AnyOf: titled}}},
	)
}
