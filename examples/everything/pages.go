package everything

import (
	_ "embed"

	"github.com/troupe-run/troupe"
)

// measurePage is the URI of the page that shows the results of the tool measure.
const measurePage = "ui://everything/measure"

//go:embed pages/measure.html
var measureHTML string

// addPages adds the pages of tools.
func addPages(s *troupe.Server) {
	troupe.AddPage(s, troupe.Page{
		URI: measurePage, Name: "measure", Title: "Measures of a text", Description: "Shows what the tool measure counts.",
		HTML: measureHTML, Border: new(true),
	})
}
