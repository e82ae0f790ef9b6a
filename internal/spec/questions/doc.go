// Package questions tests over the wire what a server asks of the client of a session: elicitation, sampling, roots and
// pings, in each revision, and the capabilities that they need.
package questions
