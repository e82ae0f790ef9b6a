package auth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"time"
)

const (
	fetchTime    = 5 * time.Second // for all requests of a fetch together
	maxDocument  = 1 << 20         // bytes of a response, or of a file
	maxRedirects = 3
)

var (
	errTooLarge = fmt.Errorf("it has more than %d bytes", maxDocument)
	errSlow     = errors.New("the issuer took too long")
	errClosed   = errors.New("the authority is closed")
)

// newClient returns a client that follows no redirect to another host: who may redirect for an issuer need not be the issuer.
func newClient(transport http.RoundTripper) *http.Client {
	return &http.Client{Transport: transport, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects || !sameHost(r.URL, via[0].URL) {
			return fmt.Errorf("redirect to %s refused", r.URL.Redacted())
		}
		return nil
	}}
}

// getDocument returns the body of a response, and how long it may be kept.
func getDocument(ctx context.Context, client *http.Client, address string) ([]byte, time.Duration, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, 0, err
	}
	return exchangeBody(client, r)
}

// exchangeBody sends a request, and returns the body of a 200.
func exchangeBody(client *http.Client, r *http.Request) ([]byte, time.Duration, error) {
	r.Header.Set("Accept", "application/json")
	response, err := client.Do(r)
	if err != nil {
		if cause := context.Cause(r.Context()); cause != nil {
			err = fmt.Errorf("%s: %w", r.URL.Redacted(), cause)
		}
		return nil, 0, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, 0, fmt.Errorf("%s: %s", r.URL.Redacted(), response.Status)
	}
	data, err := readBounded(response.Body)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", r.URL.Redacted(), err)
	}
	return data, askedInterval(response.Header), nil
}

func readBounded(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	if err == nil && len(data) > maxDocument {
		err = errTooLarge
	}
	return data, err
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readBounded(f)
}

// location is where an issuer's keys were found: nothing is asked for twice that is known.
type location struct {
	metadataURL string
	metadata    []byte
	keys        string
	until       time.Time // when the metadata is asked for again, which may name another URL for the keys
}

// locateKeys returns where the keys of an issuer are, from the first of its metadata that fits.
func locateKeys(ctx context.Context, client *http.Client, issuer, first string, now time.Time) (*location, error) {
	var faults []error
	places := metadataURLs(issuer)
	if n := slices.Index(places, first); n > 0 {
		places[0], places[n] = places[n], places[0]
	}
	for _, place := range places {
		data, _, err := getDocument(ctx, client, place)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		keys, err := readMetadata(data, issuer)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", place, err))
			continue
		}
		return &location{metadataURL: place, metadata: data, keys: keys, until: now.Add(maxInterval)}, nil
	}
	return nil, errors.Join(faults...)
}

// isFile reports whether Issuer.Keys is the path of a file.
func isFile(keys string) bool {
	u, err := url.Parse(keys)
	return keys != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http")
}
