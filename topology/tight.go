package topology

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/forsd/forsd/ib"
)

// leafLoad is what bounds a plan by one leaf.
type leafLoad struct {
	name   string
	hosts  []string // descriptions of its servers
	cables int      // upwards, as they are meant to be
}

// loads lists the leaves that have servers, of hosts that are servers, and of cables by leaf.
func loads(hosts []Host, servers []int, leaves int, leaf func(l int) (name string, cables int)) []leafLoad {
	out := make([]leafLoad, leaves)
	for l := range out {
		out[l].name, out[l].cables = leaf(l)
	}
	for _, i := range servers {
		h := &hosts[i]
		out[h.Leaf].hosts = append(out[h.Leaf].hosts, h.Name)
	}
	return slices.DeleteFunc(out, func(l leafLoad) bool { return len(l.hosts) == 0 || l.cables == 0 })
}

// tightest returns the bound of an exchange of all servers by the cables of one leaf, and
// the leaf; −1 where what a server sends binds.
func tightest(leaves []leafLoad) (bound, at int) {
	servers := 0
	for i := range leaves {
		servers += len(leaves[i].hosts)
	}
	bound, at = max(0, servers-1), -1
	for i := range leaves {
		n := len(leaves[i].hosts)
		if b := (n*(servers-n) + leaves[i].cables - 1) / leaves[i].cables; b > bound {
			bound, at = b, i
		}
	}
	return bound, at
}

// A leaf is named where an exchange without its servers is shorter by one in tightGain, and
// these are no more than one in tightHosts; the tree where most leaves have more than
// thinTop servers for each cable.
const (
	tightGain  = 10
	tightHosts = 10
	thinTop    = 8
)

// tight finds leaves whose few cables make all others wait, as those of login or storage
// hosts often do, and trees that join their leaves by next to nothing.
func tight(leaves []leafLoad) (found []Finding) {
	if len(leaves) < 2 {
		return nil
	}
	middle := slices.Clone(leaves)
	slices.SortStableFunc(middle, func(a, b leafLoad) int { return len(a.hosts)*b.cables - len(b.hosts)*a.cables })
	bound, _ := tightest(leaves)
	if m := middle[len(middle)/2]; len(m.hosts) > thinTop*m.cables {
		return []Finding{{Code: FewSpineCables, Text: fmt.Sprintf("leaves have few cables to spines, %s of %s for %d hosts: an exchange of all hosts takes at least %d phases, one within a leaf %d; "+
			"if every leaf is a rail, which joins the same adapter of all servers, set planning.exchange: rails (--exchange rails)",
			counted(m.cables, "cable", "cables"), m.name, len(m.hosts), bound, len(m.hosts)-1)}}
	}
	servers := 0
	for i := range leaves {
		servers += len(leaves[i].hosts)
	}
	var out []leafLoad // taken out so far, and of these as many as gained the last time
	named, least, rest := 0, bound, slices.Clone(leaves)
	for gone := 0; ; {
		b, at := tightest(rest)
		if tightGain*(least-b) >= least {
			named, least = len(out), b
		}
		if at < 0 {
			break
		}
		if gone += len(rest[at].hosts); gone*tightHosts > servers {
			break
		}
		out = append(out, rest[at])
		rest = slices.Delete(rest, at, at+1)
	}
	if named == 0 {
		return nil
	}
	var names, hosts []string
	for _, l := range out[:named] {
		names = append(names, fmt.Sprintf("leaf %s (%s for %s)", l.name, counted(l.cables, "cable", "cables"), counted(len(l.hosts), "host", "hosts")))
		hosts = append(hosts, l.hosts...)
	}
	return []Finding{{Code: LeafBinds, Text: fmt.Sprintf("every exchange waits for %s: %d phases at least, and %d without; if the hosts there are for logins, storage or management, give them a role%s",
		listed(names), bound, least, roleLine(hosts, rest, out[named:]))}}
}

// roleLine returns the line of forsd.yaml that gives hosts a role, where their descriptions
// tell them from all others.
func roleLine(hosts []string, others ...[]leafLoad) string {
	var words []string
	for _, h := range hosts {
		if w := ib.FirstWord(h); w != "" && !slices.Contains(words, w) {
			words = append(words, w)
		}
	}
	slices.Sort(words)
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = regexp.QuoteMeta(w)
	}
	pattern := "^(" + strings.Join(quoted, "|") + ")( |$)"
	is := regexp.MustCompile(pattern)
	for _, leaves := range others {
		for _, l := range leaves {
			if slices.ContainsFunc(l.hosts, is.MatchString) {
				return ": their descriptions are those of others, too, and have to be changed before"
			}
		}
	}
	return fmt.Sprintf(`: planning: {roles: {management: '%s'}}`, pattern)
}
