package ib

import (
	"fmt"
	"iter"
	"strings"
)

// DidYouMean returns a hint with the candidate closest to a name, the first among equals:
// `: did you mean "node001"?`. It is "" if none is close.
func DidYouMean(name string, candidates iter.Seq[string]) string {
	closest, least := "", len(name)/2+1
	for c := range candidates {
		if d := editDistance(strings.ToLower(name), strings.ToLower(c), least); c != "" && d < least {
			closest, least = c, d
		}
	}
	if closest == "" {
		return ""
	}
	return fmt.Sprintf(": did you mean %q?", closest)
}

// FirstWord returns a description up to its first blank: the host's name, where the
// adapter's follows.
func FirstWord(description string) string {
	if i := strings.IndexAny(description, " \t"); i >= 0 {
		return description[:i]
	}
	return description
}

// SameHost reports whether two names mean the same host, ignoring case, and ignoring the
// domain if only one name has one.
func SameHost(a, b string) bool {
	shortA, domainA, _ := strings.Cut(strings.ToLower(a), ".")
	shortB, domainB, _ := strings.Cut(strings.ToLower(b), ".")
	return shortA != "" && shortA == shortB && (domainA == "" || domainB == "" || domainA == domainB)
}

// editDistance returns the Levenshtein distance of a and b in bytes; if that is limit or
// more, any number from limit on.
func editDistance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
