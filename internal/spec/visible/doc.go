// Package visible has the black-box tests of servers that show each caller what that may see.
package visible
