package hostlist

import (
	"cmp"
	"slices"
	"strings"
)

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
