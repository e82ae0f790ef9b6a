package protocol

import "github.com/troupe-run/troupe/mcp"

// ImplementationFor returns the implementation for a peer of the revision.
func ImplementationFor(i mcp.Implementation, r mcp.Revision) mcp.Implementation {
	if !Has(r, FeatureTitles) {
		i.Title = ""
	}
	if !Has(r, FeatureIcons) {
		i.Description, i.WebsiteURL, i.Icons = "", "", nil
	}
	return i
}

// ToolFor returns the tool for a peer of the revision. The title moves to the annotations in a
// revision that has it only there.
func ToolFor(t mcp.Tool, r mcp.Revision) mcp.Tool {
	switch {
	case !Has(r, FeatureToolAnnotations):
		t.Annotations = nil
	case !Has(r, FeatureTitles) && t.Title != "" && (t.Annotations == nil || t.Annotations.Title == ""):
		titled := mcp.ToolAnnotations{}
		if t.Annotations != nil {
			titled = *t.Annotations
		}
		titled.Title = t.Title
		t.Annotations = &titled
	}
	if !Has(r, FeatureTitles) {
		t.Title, t.Meta = "", nil
	}
	if !Has(r, FeatureStructuredOutput) || !Has(r, FeatureStructuredValues) && !ofObjects(t.OutputSchema) {
		t.OutputSchema = nil
	}
	if !Has(r, FeatureIcons) {
		t.Icons = nil
	}
	if !Has(r, FeatureCoreTasks) {
		t.Execution = nil
	}
	return t
}

// ofObjects reports whether a schema says that its values are objects, in the one way that older
// revisions know.
func ofObjects(schema []byte) bool {
	kind, _ := mcp.Object(schema).Get("type")
	return string(kind) == `"object"`
}

// PromptFor returns the prompt for a peer of the revision.
func PromptFor(p mcp.Prompt, r mcp.Revision) mcp.Prompt {
	if !Has(r, FeatureTitles) {
		p.Title, p.Meta = "", nil
		for i := range p.Arguments {
			if p.Arguments[i].Title != "" {
				p.Arguments = untitled(p.Arguments)
				break
			}
		}
	}
	if !Has(r, FeatureIcons) {
		p.Icons = nil
	}
	return p
}

func untitled(args []mcp.PromptArgument) []mcp.PromptArgument {
	out := make([]mcp.PromptArgument, len(args))
	for i, a := range args {
		a.Title = ""
		out[i] = a
	}
	return out
}

// ResourceFor returns the resource for a peer of the revision.
func ResourceFor(x mcp.Resource, r mcp.Revision) mcp.Resource {
	if !Has(r, FeatureTitles) {
		x.Title, x.Meta = "", nil
	}
	if !Has(r, FeatureIcons) {
		x.Icons = nil
	}
	x.Annotations = annotationsFor(x.Annotations, r)
	return x
}

// TemplateFor returns the template for a peer of the revision.
func TemplateFor(t mcp.ResourceTemplate, r mcp.Revision) mcp.ResourceTemplate {
	if !Has(r, FeatureTitles) {
		t.Title, t.Meta = "", nil
	}
	if !Has(r, FeatureIcons) {
		t.Icons = nil
	}
	t.Annotations = annotationsFor(t.Annotations, r)
	return t
}

// annotationsFor returns a itself when the revision knows all of it, and nil when it knows nothing
// of it.
func annotationsFor(a *mcp.Annotations, r mcp.Revision) *mcp.Annotations {
	if a == nil || a.LastModified == "" || Has(r, FeatureTitles) {
		return a
	}
	if len(a.Audience) == 0 && a.Priority == nil {
		return nil
	}
	return &mcp.Annotations{Audience: a.Audience, Priority: a.Priority}
}
