package official

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// resultTypes names the definition of each method's result in the official
// schema.
var resultTypes = map[string]string{
	"initialize":               "InitializeResult",
	"ping":                     "EmptyResult",
	"tools/list":               "ListToolsResult",
	"tools/call":               "CallToolResult",
	"prompts/list":             "ListPromptsResult",
	"prompts/get":              "GetPromptResult",
	"resources/list":           "ListResourcesResult",
	"resources/templates/list": "ListResourceTemplatesResult",
	"resources/read":           "ReadResourceResult",
	"resources/subscribe":      "EmptyResult",
	"resources/unsubscribe":    "EmptyResult",
	"completion/complete":      "CompleteResult",
	"logging/setLevel":         "EmptyResult",
	"server/discover":          "DiscoverResult",
	"subscriptions/listen":     "SubscriptionsListenResult",
}

// Check checks a server's message against the definitions that fit it. methods are those of the requests with its id.
func (s Schema) Check(message string, methods []string) error {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(message))
	if err != nil {
		return err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return errors.New("no object")
	}
	has := func(name string) bool { _, ok := m[name]; return ok }
	if s.stateless() {
		return s.checkStateless(m, has, methods)
	}
	switch {
	case has("method") && has("id"):
		return s["ServerRequest"].Validate(s.bare(m))
	case has("method"):
		return s["ServerNotification"].Validate(s.bare(m))
	case has("error") && !has("id") && s["URLElicitationRequiredError"] == nil:
		return nil // the body of an HTTP error, for which older revisions have no definition
	case has("error"):
		if e, ok := m["error"].(map[string]any); ok && e["code"] == json.Number("-32042") {
			if s["URLElicitationRequiredError"] == nil {
				return errors.New("the revision has no elicitation by URL")
			}
			return s["URLElicitationRequiredError"].Validate(v)
		}
		return s["JSONRPCErrorResponse"].Validate(v)
	}
	if err := s["JSONRPCResultResponse"].Validate(v); err != nil {
		return err
	}
	err = errors.New("an answer to nothing that was asked")
	for _, method := range methods {
		def, ok := s[resultTypes[method]]
		if !ok {
			continue // it has no result
		}
		if err = def.Validate(m["result"]); err == nil {
			return nil
		}
	}
	return err
}

// statelessErrors names the definitions of errors that have one; "" stands for a code that servers may no longer send.
var statelessErrors = map[json.Number]string{
	"-32020": "HeaderMismatchError", "-32021": "MissingRequiredClientCapabilityError", "-32022": "UnsupportedProtocolVersionError",
	"-32002": "", "-32042": "",
}

// checkStateless is Check for a schema without sessions. There a server's requests are not legal, and a result has a
// type.
func (s Schema) checkStateless(m map[string]any, has func(string) bool, methods []string) error {
	switch {
	case has("method") && has("id"):
		return errors.New("the revision has no requests of servers")
	case has("method"):
		return s["ServerNotification"].Validate(m)
	case has("error"):
		def := "JSONRPCErrorResponse"
		if e, ok := m["error"].(map[string]any); ok {
			if code, ok := e["code"].(json.Number); ok {
				if name, ok := statelessErrors[code]; ok {
					def = name
				}
			}
		}
		if def == "" {
			return errors.New("the revision has taken this code back")
		}
		return s[def].Validate(m)
	}
	if err := s["JSONRPCResultResponse"].Validate(m); err != nil {
		return err
	}
	result := m["result"].(map[string]any)
	if result["resultType"] == "input_required" {
		if !slices.ContainsFunc(methods, func(m string) bool {
			return m == "tools/call" || m == "prompts/get" || m == "resources/read"
		}) {
			return fmt.Errorf("no request of %v may be answered with questions", methods)
		}
		if result["inputRequests"] == nil && result["requestState"] == nil {
			return errors.New("neither questions nor a state")
		}
		return s["InputRequiredResult"].Validate(result)
	}
	if result["resultType"] != "complete" {
		return fmt.Errorf("results of type %v are unknown", result["resultType"])
	}
	err := errors.New("an answer to nothing that was asked")
	for _, method := range methods {
		if def, ok := s[resultTypes[method]]; ok {
			if err = def.Validate(result); err == nil {
				return nil
			}
		}
	}
	return err
}
