package mcp

import "slices"

// Revision is a revision of the protocol. Later revisions compare greater. The zero value
// is no revision: a peer's version string that this package does not know.
type Revision uint8

// The revisions in order.
const (
	Revision20241105 Revision = iota + 1
	Revision20250326
	Revision20250618
	Revision20251125
	Revision20260728

	// Latest is the newest revision.
	Latest = Revision20260728
	// LatestLegacy is the newest revision that has sessions and initialize.
	LatestLegacy = Revision20251125
)

var revisionNames = [Latest + 1]string{
	Revision20241105: "2024-11-05",
	Revision20250326: "2025-03-26",
	Revision20250618: "2025-06-18",
	Revision20251125: "2025-11-25",
	Revision20260728: "2026-07-28",
}

// Revisions returns all revisions, oldest first.
func Revisions() []Revision {
	return []Revision{Revision20241105, Revision20250326, Revision20250618, Revision20251125, Revision20260728}
}

// ParseRevision returns the revision with this exact date.
func ParseRevision(s string) (Revision, bool) {
	for r := Latest; r >= Revision20241105; r-- {
		if revisionNames[r] == s {
			return r, true
		}
	}
	return 0, false
}

// String returns the date, as in protocolVersion, or "" for no revision.
func (r Revision) String() string {
	if r > Latest {
		return ""
	}
	return revisionNames[r]
}

// Valid reports whether r is one of the revisions.
func (r Revision) Valid() bool { return r >= Revision20241105 && r <= Latest }

// Stateless reports whether r has no sessions: each request belongs to none.
func (r Revision) Stateless() bool { return r >= Revision20260728 && r <= Latest }

// Has reports whether the revision has the feature.
func (r Revision) Has(f Feature) bool {
	return int(f) < len(featureSpans) && featureSpans[f].Includes(r)
}

// Negotiate returns the revision to answer initialize with: the requested one if it is
// supported, and otherwise the newest supported one. An unknown version is not an error:
// the client disconnects if it cannot speak the revision in the response. Only revisions
// that have initialize count. Zero means that none of them is supported; then answer the
// request with [CodeInvalidParams] (lifecycle, version negotiation).
func Negotiate(requested string, supported []Revision) Revision {
	r, ok := ParseRevision(requested)
	if ok && !r.Stateless() && slices.Contains(supported, r) {
		return r
	}
	var newest Revision
	for _, s := range supported {
		if s.Valid() && !s.Stateless() {
			newest = max(newest, s)
		}
	}
	return newest
}

// Span is a range of revisions. A zero Since means never, a zero Until means up to now.
type Span struct{ Since, Until Revision }

// Includes reports whether the revision lies in the span.
func (s Span) Includes(r Revision) bool {
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
	// FeatureTasksExtension: tasks as the extension [ExtensionTasks].
	FeatureTasksExtension

	featureCount
)

var featureSpans = [featureCount]Span{
	FeatureHTTPSSE:              {Revision20241105, Revision20241105},
	FeatureStreamableHTTP:       {Since: Revision20250326},
	FeatureSessions:             {Revision20241105, Revision20251125},
	FeatureBatch:                {Revision20250326, Revision20250326},
	FeatureMayBatch:             {Revision20241105, Revision20250326},
	FeatureVersionHeader:        {Since: Revision20250618},
	FeatureStreamPriming:        {Revision20251125, Revision20251125},
	FeatureErrorWithoutID:       {Since: Revision20251125},
	FeatureServerRequests:       {Revision20241105, Revision20251125},
	FeatureInputRequired:        {Since: Revision20260728},
	FeatureListen:               {Since: Revision20260728},
	FeatureAudio:                {Since: Revision20250326},
	FeatureToolAnnotations:      {Since: Revision20250326},
	FeatureProgressMessage:      {Since: Revision20250326},
	FeatureTitles:               {Since: Revision20250618},
	FeatureStructuredOutput:     {Since: Revision20250618},
	FeatureStructuredValues:     {Since: Revision20260728},
	FeatureResourceLinks:        {Since: Revision20250618},
	FeatureCompletionContext:    {Since: Revision20250618},
	FeatureElicitation:          {Since: Revision20250618},
	FeatureURLElicitation:       {Since: Revision20251125},
	FeatureElicitationIDs:       {Revision20251125, Revision20251125},
	FeatureIcons:                {Since: Revision20251125},
	FeatureSampling:             {Since: Revision20241105},
	FeatureRoots:                {Since: Revision20241105},
	FeatureSamplingTools:        {Since: Revision20251125},
	FeatureInputErrorsAsResults: {Since: Revision20251125},
	FeatureCoreTasks:            {Revision20251125, Revision20251125},
	FeatureTasksExtension:       {Since: Revision20260728},
}
