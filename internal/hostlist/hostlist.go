// Package hostlist reads and writes the notations of job schedulers and MPI launchers for
// hosts: Slurm's hostlist expressions, and host files.
package hostlist

import (
	"cmp"
	"fmt"
	"slices"
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

// name is a host name split at its last number.
type name struct {
	head, digits, tail string
	value              uint64
}

func split(host string) name {
	end := strings.LastIndexAny(host, "0123456789") + 1
	start := end
	for start > 0 && end-start < maxDigits && host[start-1] >= '0' && host[start-1] <= '9' {
		start--
	}
	n := name{head: host[:start], digits: host[start:end], tail: host[end:]}
	for _, c := range n.digits {
		n.value = 10*n.value + uint64(c-'0')
	}
	return n
}

// padded reports whether the number has leading zeros.
func (n *name) padded() bool { return len(n.digits) > 1 && n.digits[0] == '0' }

// follows reports whether n can extend the range of hosts from first to last.
func (n *name) follows(first, last *name) bool {
	return n.digits != "" && last.digits != "" && n.value == last.value+1 &&
		(len(n.digits) == len(last.digits) || !first.padded() && !n.padded() && len(n.digits) == len(last.digits)+1)
}

// Compress writes hosts as a hostlist expression, without repetitions and in order of names and
// numbers: node[001-003,007],x1. Expand lists the same hosts. A host name with a comma, a
// bracket or white space cannot be written; see Usable.
func Compress(hosts []string) string {
	names := make([]name, len(hosts))
	for i, h := range hosts {
		names[i] = split(h)
	}
	slices.SortFunc(names, func(a, b name) int {
		return cmp.Or(cmp.Compare(a.head, b.head), cmp.Compare(a.tail, b.tail), cmp.Compare(a.value, b.value), cmp.Compare(len(a.digits), len(b.digits)))
	})
	names = slices.Compact(names)
	var items []string
	for len(names) > 0 {
		n := 1
		for n < len(names) && names[n].head == names[0].head && names[n].tail == names[0].tail && names[0].digits != "" {
			n++
		}
		items = append(items, join(names[:n]))
		names = names[n:]
	}
	return strings.Join(items, ",")
}

// join writes hosts that differ only in their numbers.
func join(names []name) string {
	first := &names[0]
	if len(names) == 1 {
		return first.head + first.digits + first.tail
	}
	var ranges []string
	for len(names) > 0 {
		n := 1
		for n < len(names) && names[n].follows(&names[0], &names[n-1]) {
			n++
		}
		text := names[0].digits
		if n > 1 {
			text += "-" + names[n-1].digits
		}
		ranges = append(ranges, text)
		names = names[n:]
	}
	return first.head + "[" + strings.Join(ranges, ",") + "]" + first.tail
}

// Usable reports whether a hostlist expression can contain a host.
func Usable(host string) bool { return host != "" && !strings.ContainsAny(host, ",[] \t\r\n#=") }
