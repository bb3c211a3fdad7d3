package topology

import (
	"fmt"
	"iter"
	"strings"
)

// DidYouMean is a hint at the candidate that is closest to a name, of those that come
// first: `: did you mean "node001"?`. It is empty where none is close.
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

// FirstWord is a description up to its first blank: the host's name, where the
// adapter's follows.
func FirstWord(description string) string {
	if i := strings.IndexAny(description, " \t"); i >= 0 {
		return description[:i]
	}
	return description
}

// SameHost tells whether two names mean the same host: case does not count, and of two
// domains none or both do.
func SameHost(a, b string) bool {
	shortA, domainA, _ := strings.Cut(strings.ToLower(a), ".")
	shortB, domainB, _ := strings.Cut(strings.ToLower(b), ".")
	return shortA != "" && shortA == shortB && (domainA == "" || domainB == "" || domainA == domainB)
}

// editDistance is Levenshtein's distance of a and b in bytes, or any number
// from limit on when it is no less than limit.
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
