// Package sample has something for each kind of mistake.
package sample

import "time"

// Most is a constant, with which no switch can meddle.
const Most = 3

var patience = 5 * time.Second

// Grade is tested well but for what its comments say.
func Grade(points int, late bool) (grade string, err error) {
	if late && points > 0 {
		points--
	}
	switch {
	case points >= 90:
		return "good", nil
	case points < 0 ||
		points > 100: // nobody asks for more
		return "", errNone
	}
	for i := range 4 {
		if i == Most {
			continue
		}
		if points == i {
			grade += "!"
		}
	}
	return "fair" + grade, nil
}

type none struct{}

func (none) Error() string { return "no grade" } // nobody asks

var errNone error = none{}

// Wait is tested in full.
func Wait(rounds uint8, from func() time.Duration) time.Duration {
	defer func() { rounds = 0 }() // changes nothing
	total := from()
	for range rounds {
		total += patience / 2
	}
	return total
}

// Untested has no test.
func Untested(a, b float64) float64 { return a*b + 1<<3 }
