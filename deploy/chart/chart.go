package chart

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	v2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"
)

// KubernetesVersion is the release of Kubernetes for which charts are rendered.
const KubernetesVersion = "v1.37.0"

// Chart is a chart as it was read.
type Chart struct{ chart *v2.Chart }

// Load reads the chart in a directory.
func Load(dir string) (*Chart, error) {
	c, err := loader.LoadDir(dir)
	if err != nil {
		return nil, err
	}
	return &Chart{c}, nil
}

// Release is what Helm knows of an installation beside its values.
type Release struct {
	Name, Namespace string
	Revision        int // from 1; 0 counts as 1
}

// Values reads values as Helm does from a file of --values.
func Values(text string) (map[string]any, error) {
	v, err := common.ReadValues([]byte(text))
	return v, err
}

// Rendered is what comes of a chart.
type Rendered struct {
	Text    string           // all objects as YAML, each behind the name of its template, as helm template prints them
	Notes   string           // what helm install prints
	Objects []runtime.Object // those of Text, in its order
}

// Render renders the chart with values. The error of a combination that cannot work has the chart's sentences.
func (c *Chart) Render(ctx context.Context, r Release, values map[string]any) (*Rendered, error) {
	version, err := common.ParseKubeVersion(KubernetesVersion)
	if err != nil {
		return nil, err
	}
	able := common.DefaultCapabilities.Copy()
	able.KubeVersion = *version
	release := common.ReleaseOptions{Name: r.Name, Namespace: r.Namespace, Revision: max(r.Revision, 1), IsInstall: r.Revision <= 1, IsUpgrade: r.Revision > 1}
	all, err := util.ToRenderValues(c.chart, values, release, able)
	if err != nil {
		return nil, err
	}
	files, err := engine.Engine{}.RenderWithContext(ctx, c.chart, all)
	if err != nil {
		return nil, err
	}
	rendered := &Rendered{}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		switch {
		case path.Base(name) == "NOTES.txt":
			rendered.Notes = files[name]
		case strings.HasSuffix(name, ".yaml"):
			if err := rendered.add(&text, name, files[name]); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	rendered.Text = text.String()
	return rendered, nil
}

// Decode reads objects as Text of a Rendered has them.
func Decode(text string) (*Rendered, error) {
	r := &Rendered{Text: text}
	return r, r.decode(text, func([]byte) {})
}

// add adds what a template has rendered, which may be nothing, or several objects.
func (r *Rendered) add(text *strings.Builder, name, content string) error {
	return r.decode(content, func(document []byte) { fmt.Fprintf(text, "---\n# Source: %s\n%s\n", name, bytes.TrimSpace(document)) })
}

// decode appends the objects of a text, and calls each with the document of each.
func (r *Rendered) decode(text string, each func(document []byte)) error {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		document, err := documents.Read()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		var value any
		if err := yaml.UnmarshalStrict(document, &value); err != nil {
			return fmt.Errorf("%w, in\n%s", err, document)
		}
		if value == nil { // comments alone
			continue
		}
		object, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			return fmt.Errorf("%w, in\n%s", err, document)
		}
		r.Objects = append(r.Objects, object)
		each(document)
	}
}

// decoder decodes what a chart may have, and takes no field that is none.
var decoder = func() runtime.Decoder {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, gateway.Install, monitoring.AddToScheme} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return json.NewSerializerWithOptions(json.DefaultMetaFactory, s, s, json.SerializerOptions{Yaml: true, Strict: true})
}()

// All returns the objects of a type.
func All[T runtime.Object](r *Rendered) (all []T) {
	for _, o := range r.Objects {
		if t, ok := o.(T); ok {
			all = append(all, t)
		}
	}
	return all
}
