// Package hostlist reads and writes the notations of job schedulers and MPI launchers for
// hosts: Slurm's hostlist expressions, and host files.
package hostlist

import (
	"fmt"
	"strconv"
	"strings"
)

// Most is the largest number of hosts that an expression or a file may name.
const Most = 1 << 16

// Expand lists the hosts of a hostlist expression in order, including repetitions:
// "node[001-003,7],x[1-2]y[3-4]" is node001, node002, node003, node7, x1y3, x1y4, x2y3, x2y4. A
// range has as many digits as its first number.
func Expand(expression string) ([]string, error) {
	var out []string
	rest := expression
	for {
		item, after, more, err := cutItem(rest)
		if err != nil {
			return nil, fmt.Errorf("host list %.60q: %w", expression, err)
		}
		if item = strings.TrimSpace(item); item != "" {
			if out, err = expandItem(out, item); err != nil {
				return nil, fmt.Errorf("host list %.60q: %w", expression, err)
			}
		}
		if !more {
			break
		}
		rest = after
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("host list %.60q names no host", expression)
	}
	return out, nil
}

// cutItem cuts the text at its first comma outside brackets.
func cutItem(text string) (item, after string, more bool, err error) {
	open := false
	for i := range len(text) {
		switch c := text[i]; {
		case c == '[' && open:
			return "", "", false, fmt.Errorf("brackets within brackets")
		case c == '[':
			open = true
		case c == ']' && !open:
			return "", "", false, fmt.Errorf("a bracket closes that never opened")
		case c == ']':
			open = false
		case c == ',' && !open:
			return text[:i], text[i+1:], true, nil
		}
	}
	if open {
		return "", "", false, fmt.Errorf("a bracket opens and never closes: want such as node[01-16]")
	}
	return text, "", false, nil
}

// expandItem appends the hosts of one item, which has any number of brackets.
func expandItem(out []string, item string) ([]string, error) {
	heads := []string{""} // the beginnings of the hosts, up to here
	for item != "" {
		text, rest, bracket := strings.Cut(item, "[")
		if strings.ContainsAny(text, " \t\r\n") {
			return nil, fmt.Errorf("%.60q is two hosts without a comma", item)
		}
		for i := range heads {
			heads[i] += text
		}
		if !bracket {
			break
		}
		inside, after, _ := strings.Cut(rest, "]") // cutItem has checked the bracket
		numbers, err := expandRanges(inside)
		if err != nil {
			return nil, err
		}
		if len(heads)*len(numbers) > Most {
			return nil, fmt.Errorf("more than %d hosts", Most)
		}
		next := make([]string, 0, len(heads)*len(numbers))
		for _, head := range heads {
			for _, n := range numbers {
				next = append(next, head+n)
			}
		}
		heads, item = next, after
	}
	if len(out)+len(heads) > Most {
		return nil, fmt.Errorf("more than %d hosts", Most)
	}
	return append(out, heads...), nil
}

// expandRanges lists the numbers of a text such as "001-004,7".
func expandRanges(text string) ([]string, error) {
	var out []string
	for part := range strings.SplitSeq(text, ",") {
		low, high, ranged := strings.Cut(strings.TrimSpace(part), "-")
		first, err := number(low)
		if err != nil {
			return nil, err
		}
		if !ranged {
			out = append(out, low)
			continue
		}
		last, err := number(high)
		switch {
		case err != nil:
			return nil, err
		case last < first:
			return nil, fmt.Errorf("the range %s-%s runs backwards", low, high)
		case last-first >= Most || len(out)+int(last-first) >= Most:
			return nil, fmt.Errorf("more than %d hosts", Most)
		}
		for n := first; n <= last; n++ {
			out = append(out, fmt.Sprintf("%0*d", len(low), n))
		}
	}
	return out, nil
}

// maxDigits bounds the numbers of host names.
const maxDigits = 18

// number parses a number that has only decimal digits.
func number(text string) (uint64, error) {
	if text == "" || len(text) > maxDigits || strings.Trim(text, "0123456789") != "" {
		return 0, fmt.Errorf("%.60q is not a number of 1 to %d digits", text, maxDigits)
	}
	return strconv.ParseUint(text, 10, 64)
}
