package mcp

// ExtensionUI is the key of the extension MCP Apps (SEP-1865) in the extensions of both
// sides. It needs the `_meta` of tools, which they have since 2025-06-18.
const ExtensionUI = "io.modelcontextprotocol/ui"

// UIAudience is who may call a tool.
type UIAudience string

// The audiences.
const (
	UIModel UIAudience = "model" // the model sees the tool and calls it
	UIApp   UIAudience = "app"   // pages of the same server call it
)

// UICSP lists the origins that a page may use, such as https://api.example.com. What is
// not listed, the host blocks.
type UICSP struct {
	ConnectDomains  []string `json:"connectDomains,omitempty"`  // fetch, XMLHttpRequest and WebSocket
	ResourceDomains []string `json:"resourceDomains,omitempty"` // images, scripts, styles, fonts and media; https://*.example.com has subdomains
	FrameDomains    []string `json:"frameDomains,omitempty"`    // frames within the page
	BaseURIDomains  []string `json:"baseUriDomains,omitempty"`  // what <base> may name, beside the page's own origin
}

// UIPermissions are abilities of the browser that a page asks for. A host may grant none:
// a page has to look whether it has them.
type UIPermissions struct {
	Camera         *Object `json:"camera,omitempty"`
	Microphone     *Object `json:"microphone,omitempty"`
	Geolocation    *Object `json:"geolocation,omitempty"`
	ClipboardWrite *Object `json:"clipboardWrite,omitempty"`
}

// MIMEApp is the type of a page that a host shows in place of a tool's result.
const MIMEApp = "text/html;profile=mcp-app"

// UIPage says what a page needs of the host that shows it.
type UIPage struct {
	CSP         *UICSP         `json:"csp,omitempty"`
	Permissions *UIPermissions `json:"permissions,omitempty"`
	// Domain is the origin that the page is to have. Its form is the host's affair; empty
	// leaves it to the host.
	Domain string `json:"domain,omitempty"`
	// PrefersBorder asks for a border and a background of the host, or for none. nil leaves
	// it to the host.
	PrefersBorder *bool `json:"prefersBorder,omitempty"`
}
