// Package nws asks the weather service of the United States, for the three weather servers beside it.
package nws

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
)

// Alerts returns the warnings for a state, such as CA, one a line.
func Alerts(ctx context.Context, state string) (string, error) {
	var found struct {
		Features []struct {
			Properties struct{ Event, AreaDesc, Severity string }
		}
	}
	if err := get(ctx, "/alerts/active/area/"+state, &found); err != nil {
		return "", err
	}
	var b strings.Builder
	for _, f := range found.Features {
		fmt.Fprintf(&b, "%s (%s): %s\n", f.Properties.Event, f.Properties.Severity, f.Properties.AreaDesc)
	}
	return cmp.Or(b.String(), "no alerts\n"), nil
}

// Forecast returns the weather forecast of a place, a line for each part of a day.
func Forecast(ctx context.Context, latitude, longitude float64) (string, error) {
	var point struct{ Properties struct{ Forecast string } }
	if err := get(ctx, fmt.Sprintf("/points/%g,%g", latitude, longitude), &point); err != nil {
		return "", err
	}
	var found struct {
		Properties struct {
			Periods []struct{ Name, DetailedForecast string }
		}
	}
	if err := get(ctx, point.Properties.Forecast, &found); err != nil {
		return "", err
	}
	var b strings.Builder
	for _, p := range found.Properties.Periods {
		fmt.Fprintf(&b, "%s: %s\n", p.Name, p.DetailedForecast)
	}
	return b.String(), nil
}

// get reads JSON from a path of the service, or from a full URL that the service gave.
func get(ctx context.Context, path string, into any) error {
	if strings.HasPrefix(path, "/") {
		path = cmp.Or(os.Getenv("WEATHER_API"), "https://api.weather.gov") + path
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	r.Header.Set("User-Agent", "weather-example/1.0")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the weather service answers %s", resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}
