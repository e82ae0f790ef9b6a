package protocol

import (
	"slices"

	"github.com/troupe-run/troupe/mcp"
)

// Span is a range of revisions. A zero Since means never, a zero Until means up to now.
type Span struct{ Since, Until mcp.Revision }

// Includes reports whether the revision lies in the span.
func (s Span) Includes(r mcp.Revision) bool {
	return r.Valid() && s.Since != 0 && r >= s.Since && (s.Until == 0 || r <= s.Until)
}

// Feature is something that some revisions have and others lack.
type Feature uint8

// The features.
const (
	// FeatureHTTPSSE: the transport with GET /sse and POST /messages.
	FeatureHTTPSSE Feature = iota
	// FeatureStreamableHTTP: the transport with one endpoint.
	FeatureStreamableHTTP
	// FeatureSessions: initialize, sessions and resumable streams.
	FeatureSessions
	// FeatureBatch: JSON-RPC batches must be accepted.
	FeatureBatch
	// FeatureMayBatch: JSON-RPC batches may be sent.
	FeatureMayBatch
	// FeatureVersionHeader: the MCP-Protocol-Version header.
	FeatureVersionHeader
	// FeatureStreamPriming: streams begin with an empty event and may be polled.
	FeatureStreamPriming
	// FeatureErrorWithoutID: an error response may lack its id.
	FeatureErrorWithoutID
	// FeatureServerRequests: the server may send requests.
	FeatureServerRequests
	// FeatureInputRequired: a result may ask for input, and the client calls again.
	FeatureInputRequired
	// FeatureListen: subscriptions/listen instead of a stream by GET.
	FeatureListen
	// FeatureAudio: audio content.
	FeatureAudio
	// FeatureToolAnnotations: hints on tools.
	FeatureToolAnnotations
	// FeatureProgressMessage: a message in progress notifications.
	FeatureProgressMessage
	// FeatureTitles: title and _meta on tools, prompts, resources and content, and
	// lastModified among annotations.
	FeatureTitles
	// FeatureStructuredOutput: outputSchema and structuredContent.
	FeatureStructuredOutput
	// FeatureStructuredValues: structuredContent may be any JSON value, not just an
	// object.
	FeatureStructuredValues
	// FeatureResourceLinks: resource_link content.
	FeatureResourceLinks
	// FeatureCompletionContext: completion requests carry the arguments that already have
	// values.
	FeatureCompletionContext
	// FeatureElicitation: elicitation by form.
	FeatureElicitation
	// FeatureURLElicitation: elicitation by URL.
	FeatureURLElicitation
	// FeatureElicitationIDs: elicitations by URL have ids, and the server says when
	// one has ended.
	FeatureElicitationIDs
	// FeatureIcons: icons, and description and websiteUrl of an implementation.
	FeatureIcons
	// FeatureSampling and FeatureRoots: every revision may ask them of a client;
	// 2026-07-28 deprecates them.
	FeatureSampling
	FeatureRoots
	// FeatureSamplingTools: tools in sampling, and lists of content blocks there.
	FeatureSamplingTools
	// FeatureInputErrorsAsResults: tool arguments that do not fit the schema give a result
	// with isError instead of an error.
	FeatureInputErrorsAsResults
	// FeatureCoreTasks: tasks as a part of the protocol.
	FeatureCoreTasks
	// FeatureTasksExtension: tasks as the extension [mcp.ExtensionTasks].
	FeatureTasksExtension

	featureCount
)

var featureSpans = [featureCount]Span{
	FeatureHTTPSSE:              {mcp.Revision20241105, mcp.Revision20241105},
	FeatureStreamableHTTP:       {Since: mcp.Revision20250326},
	FeatureSessions:             {mcp.Revision20241105, mcp.Revision20251125},
	FeatureBatch:                {mcp.Revision20250326, mcp.Revision20250326},
	FeatureMayBatch:             {mcp.Revision20241105, mcp.Revision20250326},
	FeatureVersionHeader:        {Since: mcp.Revision20250618},
	FeatureStreamPriming:        {mcp.Revision20251125, mcp.Revision20251125},
	FeatureErrorWithoutID:       {Since: mcp.Revision20251125},
	FeatureServerRequests:       {mcp.Revision20241105, mcp.Revision20251125},
	FeatureInputRequired:        {Since: mcp.Revision20260728},
	FeatureListen:               {Since: mcp.Revision20260728},
	FeatureAudio:                {Since: mcp.Revision20250326},
	FeatureToolAnnotations:      {Since: mcp.Revision20250326},
	FeatureProgressMessage:      {Since: mcp.Revision20250326},
	FeatureTitles:               {Since: mcp.Revision20250618},
	FeatureStructuredOutput:     {Since: mcp.Revision20250618},
	FeatureStructuredValues:     {Since: mcp.Revision20260728},
	FeatureResourceLinks:        {Since: mcp.Revision20250618},
	FeatureCompletionContext:    {Since: mcp.Revision20250618},
	FeatureElicitation:          {Since: mcp.Revision20250618},
	FeatureURLElicitation:       {Since: mcp.Revision20251125},
	FeatureElicitationIDs:       {mcp.Revision20251125, mcp.Revision20251125},
	FeatureIcons:                {Since: mcp.Revision20251125},
	FeatureSampling:             {Since: mcp.Revision20241105},
	FeatureRoots:                {Since: mcp.Revision20241105},
	FeatureSamplingTools:        {Since: mcp.Revision20251125},
	FeatureInputErrorsAsResults: {Since: mcp.Revision20251125},
	FeatureCoreTasks:            {mcp.Revision20251125, mcp.Revision20251125},
	FeatureTasksExtension:       {Since: mcp.Revision20260728},
}

// Has reports whether the revision has the feature.
func Has(r mcp.Revision, f Feature) bool {
	return int(f) < len(featureSpans) && featureSpans[f].Includes(r)
}

// Negotiate returns the revision to answer initialize with: the requested one if it is supported,
// and otherwise the newest supported one. An unknown version is not an error: the client
// disconnects if it cannot speak the revision in the response. Only revisions that have initialize
// count. Zero means that none of them is supported; then answer the request with
// [mcp.CodeUnsupportedVersion] (lifecycle, version negotiation).
func Negotiate(requested string, supported []mcp.Revision) mcp.Revision {
	r, ok := mcp.ParseRevision(requested)
	if ok && !r.Stateless() && slices.Contains(supported, r) {
		return r
	}
	var newest mcp.Revision
	for _, s := range supported {
		if s.Valid() && !s.Stateless() {
			newest = max(newest, s)
		}
	}
	return newest
}
