package troupe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/mcp"
)

// Page is an HTML document that hosts with the extension MCP Apps show in a frame, for
// [AddPage]. URI, Name and HTML are required.
type Page struct {
	// URI begins with ui://.
	URI         string
	Name        string
	Title       string
	Description string
	// HTML is the whole document. A host runs its scripts in a sandbox, and lets it reach no
	// other origin than those of CSP: styles and scripts stand in the document itself, or come
	// from CSP.ResourceDomains.
	HTML string
	// CSP lists the origins that the document uses. The zero value lets it use none.
	CSP mcp.UICSP
	// Permissions are abilities of the browser that the document asks for.
	Permissions mcp.UIPermissions
	// Domain is the origin that the document is to have, in the host's own form. Empty leaves
	// that to the host.
	Domain string
	// Border asks for a border around the document, or for none. nil leaves that to the host.
	Border *bool
	Icons  []mcp.Icon
	// Meta has further members of the resource's `_meta`; it has no member "ui".
	Meta mcp.Meta
}

// AddPage registers a page as a resource of type [mcp.MIMEApp]; it replaces a resource of
// the same URI, and [Server.RemoveResources] removes it. The server declares the extension
// io.modelcontextprotocol/ui from then on, in each revision since 2025-06-18: tools have no
// `_meta` before. [Tool.UI] names the page. For a document that is made for each reader, add
// a resource of that type with [AddResource], and the `_meta` of [mcp.UIPage].
//
// AddPage panics when the page lacks its URI, name or HTML, when the URI does not begin with
// ui://, when the HTML has more than 16 MiB, when an origin is none, and when the page
// cannot be encoded.
func AddPage(s *Server, p Page) { must(addPage(s, p, true)) }

// TryAddPage is AddPage with an error in place of a panic, as [TryAddTool] is [AddTool].
func TryAddPage(s *Server, p Page) error { return addPage(s, p, false) }

// meta returns what the `_meta` of the page says of it, nil if that is nothing.
func (p *Page) meta() (any, error) {
	switch most := limits.PageHTML.Value(); {
	case !pageURI(p.URI):
		return nil, errors.New("its URI must begin with ui://, and go on, without blanks")
	case strings.TrimSpace(p.HTML) == "":
		return nil, errors.New("it has no HTML")
	case len(p.HTML) > most:
		return nil, fmt.Errorf("its HTML has %d bytes, and may have %d", len(p.HTML), most)
	}
	meta := mcp.UIPage{Domain: p.Domain, PrefersBorder: p.Border}
	for _, origins := range [][]string{p.CSP.ConnectDomains, p.CSP.ResourceDomains, p.CSP.FrameDomains, p.CSP.BaseURIDomains} {
		for _, o := range origins {
			if !cspSource(o) {
				return nil, fmt.Errorf("CSP: %q is no origin, such as https://example.com", o)
			}
		}
		if len(origins) > 0 {
			meta.CSP = &p.CSP
		}
	}
	if p.Permissions != (mcp.UIPermissions{}) {
		meta.Permissions = &p.Permissions
	}
	if meta == (mcp.UIPage{}) {
		return nil, nil
	}
	return meta, nil
}

// cspOrigin is a scheme, a host, whose first label may be a star where two follow, and a port.
var cspOrigin = regexp.MustCompile(`^(?:https?|wss?)://(?:\*\.[a-zA-Z0-9-]+\.)?[a-zA-Z0-9-]+(?:\.[a-zA-Z0-9-]+)*(?::([0-9]{1,5}))?$`)

// cspSource reports whether s is an origin, which a host puts into a Content-Security-Policy: not more than it names, and nothing by
// which the header goes on with something else.
func cspSource(s string) bool {
	m := cspOrigin.FindStringSubmatch(s)
	if m == nil {
		return false
	}
	_, err := strconv.ParseUint(cmp.Or(m[1], "0"), 10, 16)
	return err == nil
}

func addPage(s *Server, p Page, replace bool) error {
	if s == nil {
		return fmt.Errorf("troupe: page %q: %w", p.URI, errNoServer)
	}
	meta, err := p.meta()
	if err != nil {
		return fmt.Errorf("troupe: page %q: %w", p.URI, err)
	}
	contents := mcp.TextResource(p.URI, mcp.MIMEApp, p.HTML)
	contents.Meta, _ = withUI(nil, meta) // encoded before
	r := mcp.Resource{URI: p.URI, Name: p.Name, Title: p.Title, Description: p.Description, MIMEType: mcp.MIMEApp,
		Size: new(int64(len(p.HTML))), Icons: p.Icons}
	if r.Meta, err = withUI(p.Meta, meta); err != nil {
		return fmt.Errorf("troupe: page %q: %w", p.URI, err)
	}
	err = s.addResource(r, func(context.Context, *Call, string, map[string]string) ([]mcp.ResourceContents, error) {
		return []mcp.ResourceContents{contents}, nil
	}, replace)
	if err == nil {
		s.hasPages.Store(true)
	}
	return err
}
