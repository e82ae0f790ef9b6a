package mcp

// Resource describes a resource. URI and Name are required.
type Resource struct {
	URI         string       `json:"uri"`
	Name        string       `json:"name"`
	Title       string       `json:"title,omitempty"`
	Description string       `json:"description,omitempty"`
	MIMEType    string       `json:"mimeType,omitempty"`
	Size        *int64       `json:"size,omitempty"` // bytes, before any encoding
	Annotations *Annotations `json:"annotations,omitempty"`
	Icons       []Icon       `json:"icons,omitempty"`
	Meta        Meta         `json:"_meta,omitempty"`
	// Scopes are those that a caller needs to read it, beside those of its server. They are for servers, and are not sent.
	Scopes []string `json:"-"`
}

// ResourceTemplate describes resources whose URIs follow an RFC 6570 template.
// MIMEType is set only if all of them share it.
type ResourceTemplate struct {
	URITemplate string       `json:"uriTemplate"`
	Name        string       `json:"name"`
	Title       string       `json:"title,omitempty"`
	Description string       `json:"description,omitempty"`
	MIMEType    string       `json:"mimeType,omitempty"`
	Annotations *Annotations `json:"annotations,omitempty"`
	Icons       []Icon       `json:"icons,omitempty"`
	Meta        Meta         `json:"_meta,omitempty"`
	// Scopes are those that a caller needs to read it, beside those of its server. They are for servers, and are not sent.
	Scopes []string `json:"-"`
}

// ResourceContents is the contents of a resource or of a part of it: exactly one of
// Text and Blob is set. Make it with [TextResource] or [BlobResource].
type ResourceContents struct {
	URI      string  `json:"uri"`
	MIMEType string  `json:"mimeType,omitempty"`
	Text     *string `json:"text,omitempty"`
	Blob     *Base64 `json:"blob,omitempty"`
	Meta     Meta    `json:"_meta,omitempty"`
}

// TextResource returns contents that are text.
func TextResource(uri, mimeType, text string) ResourceContents {
	return ResourceContents{URI: uri, MIMEType: mimeType, Text: &text}
}

// BlobResource returns contents that are binary, with the data in base64.
func BlobResource(uri, mimeType string, data []byte) ResourceContents {
	return ResourceContents{URI: uri, MIMEType: mimeType, Blob: new(EncodeBase64(data))}
}

// ReadResourceParams are the params of resources/read.
type ReadResourceParams struct {
	URI string `json:"uri"`
	InputRetry
	Meta Meta `json:"_meta,omitempty"`
}

// ReadResourceResult holds the contents; one URI may give several, such as the
// files of a directory.
type ReadResourceResult struct {
	ResultType ResultType         `json:"resultType,omitempty"` // since 2026-07-28
	Contents   []ResourceContents `json:"contents"`
	Cacheable
	Meta Meta `json:"_meta,omitempty"`
}
