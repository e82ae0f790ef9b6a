package main

import (
	"fmt"
	"strings"
)

// of is a metric of the processes that the reader has chosen, and more matchers of it.
func of(metric string, matchers ...string) string {
	return metric + "{" + strings.Join(append([]string{`job=~"$job"`, `instance=~"$instance"`}, matchers...), ", ") + "}"
}

// rate is how fast a counter rises, a second.
func rate(counter string, matchers ...string) string {
	return "rate(" + of(counter, matchers...) + "[$__rate_interval])"
}

// sum adds up series by labels, which have commas between them; "" adds up all.
func sum(by, expr string) string { return aggregate("sum", by, expr) }

// highest is the highest of series by labels.
func highest(by, expr string) string { return aggregate("max", by, expr) }

func aggregate(how, by, expr string) string {
	if by == "" {
		return how + "(" + expr + ")"
	}
	return how + " by (" + by + ") (" + expr + ")"
}

// quantile is a quantile of a histogram, by labels.
func quantile(q float64, by, histogram string, matchers ...string) string {
	if by != "" {
		by += ", "
	}
	return fmt.Sprintf("histogram_quantile(%g, %s)", q, sum(by+"le", rate(histogram+"_bucket", matchers...)))
}

// quantiles are those of a duration that people look at.
func quantiles(histogram string, matchers ...string) (all []query) {
	for _, q := range []float64{0.5, 0.95, 0.99} {
		all = append(all, query{quantile(q, "", histogram, matchers...), fmt.Sprintf("p%g", q*100)})
	}
	return all
}

// each is the queries of gauges, by labels, each with a name.
func each(by string, named ...string) (all []query) {
	legend := ""
	for label := range strings.FieldsFuncSeq(by, func(r rune) bool { return r == ',' || r == ' ' }) {
		legend += " {{" + label + "}}"
	}
	for i := 0; i < len(named); i += 2 {
		all = append(all, query{sum(by, of(named[i])), strings.TrimSpace(named[i+1] + legend)})
	}
	return all
}

// rates is each for counters.
func rates(by string, named ...string) (all []query) {
	all = each(by, named...)
	for i := range all {
		all[i].expr = sum(by, rate(named[2*i]))
	}
	return all
}
