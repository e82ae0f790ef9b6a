package mcp

// For returns the implementation for a peer of the revision.
func (i Implementation) For(r Revision) Implementation {
	if !r.Has(FeatureTitles) {
		i.Title = ""
	}
	if !r.Has(FeatureIcons) {
		i.Description, i.WebsiteURL, i.Icons = "", "", nil
	}
	return i
}

// For returns the tool for a peer of the revision. The title moves to the annotations in
// a revision that has it only there.
func (t Tool) For(r Revision) Tool {
	switch {
	case !r.Has(FeatureToolAnnotations):
		t.Annotations = nil
	case !r.Has(FeatureTitles) && t.Title != "" && (t.Annotations == nil || t.Annotations.Title == ""):
		titled := ToolAnnotations{}
		if t.Annotations != nil {
			titled = *t.Annotations
		}
		titled.Title = t.Title
		t.Annotations = &titled
	}
	if !r.Has(FeatureTitles) {
		t.Title, t.Meta = "", nil
	}
	if !r.Has(FeatureStructuredOutput) || !r.Has(FeatureStructuredValues) && !ofObjects(t.OutputSchema) {
		t.OutputSchema = nil
	}
	if !r.Has(FeatureIcons) {
		t.Icons = nil
	}
	if !r.Has(FeatureCoreTasks) {
		t.Execution = nil
	}
	return t
}

// ofObjects reports whether a schema says that its values are objects, in the one way
// that older revisions know.
func ofObjects(schema []byte) bool {
	kind, _ := member(schema, "type")
	name, _ := plainString(kind)
	return string(name) == "object"
}

// For returns the prompt for a peer of the revision.
func (p Prompt) For(r Revision) Prompt {
	if !r.Has(FeatureTitles) {
		p.Title, p.Meta = "", nil
		for i := range p.Arguments {
			if p.Arguments[i].Title != "" {
				p.Arguments = untitled(p.Arguments)
				break
			}
		}
	}
	if !r.Has(FeatureIcons) {
		p.Icons = nil
	}
	return p
}

func untitled(args []PromptArgument) []PromptArgument {
	out := make([]PromptArgument, len(args))
	for i, a := range args {
		a.Title = ""
		out[i] = a
	}
	return out
}

// For returns the resource for a peer of the revision.
func (x Resource) For(r Revision) Resource {
	if !r.Has(FeatureTitles) {
		x.Title, x.Meta = "", nil
	}
	if !r.Has(FeatureIcons) {
		x.Icons = nil
	}
	x.Annotations = x.Annotations.forRevision(r)
	return x
}

// For returns the template for a peer of the revision.
func (t ResourceTemplate) For(r Revision) ResourceTemplate {
	if !r.Has(FeatureTitles) {
		t.Title, t.Meta = "", nil
	}
	if !r.Has(FeatureIcons) {
		t.Icons = nil
	}
	t.Annotations = t.Annotations.forRevision(r)
	return t
}

// forRevision returns a itself when the revision knows all of it, and nil when it knows
// nothing of it.
func (a *Annotations) forRevision(r Revision) *Annotations {
	if a == nil || a.LastModified == "" || r.Has(FeatureTitles) {
		return a
	}
	if len(a.Audience) == 0 && a.Priority == nil {
		return nil
	}
	return &Annotations{Audience: a.Audience, Priority: a.Priority}
}
