package main

import (
	"bytes"
	"encoding/json"
)

// A dashboard is Grafana's model of one, as far as ours have it. Its members are in the order in which Grafana writes them.
type dashboard struct {
	Annotations   list     `json:"annotations"`
	Description   string   `json:"description"`
	Editable      bool     `json:"editable"`
	GraphTooltip  int      `json:"graphTooltip"`
	Links         []link   `json:"links"`
	Panels        []*panel `json:"panels"`
	Refresh       string   `json:"refresh"`
	SchemaVersion int      `json:"schemaVersion"`
	Tags          []string `json:"tags"`
	Templating    list     `json:"templating"`
	Time          span     `json:"time"`
	Timezone      string   `json:"timezone"`
	Title         string   `json:"title"`
	UID           string   `json:"uid"`
}

type list struct {
	List []any `json:"list"`
}

type span struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// A link leads to the other dashboards with the same tag.
type link struct {
	AsDropdown  bool     `json:"asDropdown"`
	IncludeVars bool     `json:"includeVars"`
	KeepTime    bool     `json:"keepTime"`
	Tags        []string `json:"tags"`
	Title       string   `json:"title"`
	Type        string   `json:"type"`
}

// A panel shows queries, or is the heading of those below it.
type panel struct {
	Collapsed   *bool           `json:"collapsed,omitempty"`
	Datasource  *source         `json:"datasource,omitempty"`
	Description string          `json:"description,omitempty"`
	FieldConfig *fieldConfig    `json:"fieldConfig,omitempty"`
	GridPos     gridPos         `json:"gridPos"`
	ID          int             `json:"id"`
	Options     any             `json:"options,omitempty"`
	Panels      json.RawMessage `json:"panels,omitempty"` // of a heading: those that it hides, which are none
	Targets     []target        `json:"targets,omitempty"`
	Title       string          `json:"title"`
	Type        string          `json:"type"`
}

type source struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type gridPos struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

type fieldConfig struct {
	Defaults  defaults `json:"defaults"`
	Overrides []any    `json:"overrides"`
}

type defaults struct {
	Custom *custom `json:"custom,omitempty"`
	Unit   string  `json:"unit"`
}

type custom struct {
	AxisSoftMin int    `json:"axisSoftMin"` // 0 is shown, and what is below
	FillOpacity int    `json:"fillOpacity"`
	LineWidth   int    `json:"lineWidth"`
	ShowPoints  string `json:"showPoints"`
}

// A target is a query.
type target struct {
	Datasource   source `json:"datasource"`
	EditorMode   string `json:"editorMode"`
	Expr         string `json:"expr"`
	Instant      bool   `json:"instant"`
	LegendFormat string `json:"legendFormat"`
	Range        bool   `json:"range"`
	RefID        string `json:"refId"`
}

// A variable is what a reader chooses at the head of a dashboard.
type variable struct {
	AllValue   string  `json:"allValue,omitempty"`
	Current    any     `json:"current"`
	Datasource *source `json:"datasource,omitempty"`
	Definition string  `json:"definition,omitempty"`
	IncludeAll bool    `json:"includeAll"`
	Label      string  `json:"label"`
	Multi      bool    `json:"multi"`
	Name       string  `json:"name"`
	Query      any     `json:"query"`
	Refresh    int     `json:"refresh"`
	Sort       int     `json:"sort"`
	Type       string  `json:"type"`
}

// The columns and heights of panels, of Grafana's 24 columns.
const (
	columns    = 24
	lineWidth  = 8
	lineHeight = 8
	statWidth  = 4
	statHeight = 4
)

// from is the data source that the reader has chosen.
var from = source{Type: "prometheus", UID: "${datasource}"}

// newDashboard returns a dashboard without panels.
func newDashboard(uid, title, says string) *dashboard {
	const tag = "troupe"
	all := map[string]any{"selected": true, "text": []string{"All"}, "value": []string{"$__all"}}
	chosen := func(name, label, query string) variable {
		return variable{
			AllValue: ".+", Current: all, Datasource: &from, Definition: query, IncludeAll: true, Label: label, Multi: true, Name: name,
			Query: map[string]string{"query": query, "refId": name}, Refresh: 2, Sort: 1, Type: "query",
		}
	}
	return &dashboard{
		Annotations: list{[]any{}},
		Description: says + " The tests run its queries; how Grafana draws them is not run by us.",
		Editable:    true, GraphTooltip: 1, Refresh: "30s", SchemaVersion: 39, Tags: []string{tag}, Timezone: "browser", Title: title, UID: uid,
		Links: []link{{IncludeVars: true, KeepTime: true, Tags: []string{tag}, Title: "Troupe", Type: "dashboards"}},
		Templating: list{[]any{
			variable{Current: map[string]any{}, Label: "Data source", Name: "datasource", Query: "prometheus", Refresh: 1, Type: "datasource"},
			chosen("job", "Job", "label_values(troupe_calls_in_flight, job)"),
			chosen("instance", "Instance", `label_values(troupe_calls_in_flight{job=~"$job"}, instance)`),
		}},
		Time: span{"now-1h", "now"},
	}
}

// place adds a panel behind the last one, in the next line if it has no room there.
func (d *dashboard) place(p *panel, width, height int) {
	if n := len(d.Panels); n > 0 {
		last := d.Panels[n-1].GridPos
		p.GridPos.X, p.GridPos.Y = last.X+last.W, last.Y
		if p.GridPos.X+width > columns || last.H != height {
			p.GridPos.X, p.GridPos.Y = 0, d.bottom()
		}
	}
	p.GridPos.W, p.GridPos.H, p.ID = width, height, len(d.Panels)+1
	d.Panels = append(d.Panels, p)
}

// bottom is the first line below all panels.
func (d *dashboard) bottom() (y int) {
	for _, p := range d.Panels {
		y = max(y, p.GridPos.Y+p.GridPos.H)
	}
	return y
}

// heading begins a part of the dashboard.
func (d *dashboard) heading(title string) {
	d.place(&panel{Title: title, Type: "row", Collapsed: new(false), Panels: json.RawMessage("[]")}, columns, 1)
}

// A query is an expression of PromQL, and what its series are called: {{label}} stands for the value of a label.
type query struct{ expr, legend string }

// lines adds a panel of lines over time. says is its description.
func (d *dashboard) lines(title, unit, says string, queries ...query) {
	d.place(&panel{
		Title: title, Type: "timeseries", Description: says, Datasource: &from, Targets: targets(queries, false),
		FieldConfig: &fieldConfig{Overrides: []any{}, Defaults: defaults{Unit: unit, Custom: &custom{FillOpacity: 10, LineWidth: 1, ShowPoints: "never"}}},
		Options: map[string]any{
			"legend":  map[string]any{"calcs": []string{"lastNotNull", "max"}, "displayMode": "table", "placement": "bottom", "showLegend": true},
			"tooltip": map[string]any{"mode": "multi", "sort": "desc"},
		},
	}, lineWidth, lineHeight)
}

// figure adds a panel with what a query says now.
func (d *dashboard) figure(title, unit, says, expr string) {
	d.place(&panel{
		Title: title, Type: "stat", Description: says, Datasource: &from, Targets: targets([]query{{expr, ""}}, true),
		FieldConfig: &fieldConfig{Overrides: []any{}, Defaults: defaults{Unit: unit}},
		Options: map[string]any{
			"colorMode": "none", "graphMode": "none", "textMode": "value",
			"reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
		},
	}, statWidth, statHeight)
}

func targets(queries []query, now bool) (all []target) {
	for i, q := range queries {
		all = append(all, target{Datasource: from, EditorMode: "code", Expr: q.expr, Instant: now, Range: !now, LegendFormat: q.legend, RefID: string(rune('A' + i))})
	}
	return all
}

// encode returns the dashboard as a file.
func (d *dashboard) encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(d)
	return b.Bytes(), err
}
