package planner

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// Groups says which exchanges are planned together: one of all servers if it is zero.
type Groups struct {
	Rails bool       // those within rails, topology.Rails
	Rows  []GroupRow // those of a file
}

// GroupRow is a line of a file with groups.
type GroupRow struct {
	Group, Server string
	Line          int
}

// ReadGroups reads a CSV file with the header group,server. Errors have the line.
func ReadGroups(data []byte) (Groups, error) {
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff"))))
	r.FieldsPerRecord, r.Comment, r.TrimLeadingSpace = -1, '#', true
	var g Groups
	for header := true; ; {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return g, fmt.Errorf("read groups: %w", err)
		}
		line, _ := r.FieldPos(0)
		for i := range row {
			row[i] = strings.TrimSpace(row[i])
		}
		switch {
		case header && !slices.Equal(row, []string{"group", "server"}):
			return g, fmt.Errorf("line %d: the header is %q: want group,server", line, strings.Join(row, ","))
		case header:
			header = false
		case len(row) != 2 || row[0] == "" || row[1] == "":
			return g, fmt.Errorf("line %d: %q is not a group and a server with a comma between them", line, strings.Join(row, ","))
		default:
			g.Rows = append(g.Rows, GroupRow{row[0], row[1], line})
		}
	}
	if len(g.Rows) == 0 {
		return g, errors.New("no group is given: want lines of a group and a server, after the header group,server")
	}
	return g, nil
}

// Divide returns the tree with the exchanges of the groups. A server is named as for
// FindMembers; one that is in no group takes no part. With skip, servers that the fabric does
// not have are left out. notes say what rails were found, and who is left out.
func (g Groups) Divide(t *topology.FatTree, skip bool) (out *topology.FatTree, notes []string, err error) {
	var x *topology.Exchanges
	switch {
	case g.Rails:
		x, notes, err = topology.Rails(t)
	case g.Rows != nil:
		x, notes, err = g.resolve(t, skip)
	}
	if err != nil {
		return nil, nil, err
	}
	return x.Divide(t), notes, nil
}

// resolve finds the servers of a file's rows.
func (g Groups) resolve(t *topology.FatTree, skip bool) (x *topology.Exchanges, notes []string, err error) {
	x = &topology.Exchanges{Of: map[ib.GUID]int{}}
	d, first, unknown := newDirectory(t), map[ib.GUID]int{}, []string{}
	for _, row := range g.Rows {
		p, err := d.find(row.Server)
		if skip && errors.Is(err, ErrUnknownHost) {
			unknown = append(unknown, row.Server)
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("line %d: %w", row.Line, err)
		}
		if before, twice := first[p.GUID]; twice {
			return nil, nil, fmt.Errorf("line %d: server %.80q, port %s, is in a group already, by line %d", row.Line, row.Server, p.GUID, before)
		}
		first[p.GUID] = row.Line
		n := slices.Index(x.Names, row.Group)
		if n < 0 {
			n, x.Names = len(x.Names), append(x.Names, row.Group)
		}
		x.Of[p.GUID] = n
	}
	if len(unknown) > 0 {
		notes = append(notes, "not in the fabric: "+topology.Few(unknown))
	}
	return x, notes, nil
}

// GroupReport is an exchange among some of the servers in figures.
type GroupReport struct {
	Name    string `json:"name"`
	Servers int    `json:"servers"`
	// Phases is the phase after which the group has nothing left to send.
	Phases int `json:"phases"`
	// LowerBound is the least number of phases for the group alone.
	LowerBound int `json:"lower_bound"`
}

// GroupReports returns the figures of the exchanges of a plan by its rows, nil if there is one of
// all. Bound returns the least number of phases for some servers alone.
func GroupReports[S ~int32](t *topology.Common, to []S, bound func(alone topology.Common) int) []GroupReport {
	if len(t.Exchanges) == 0 {
		return nil
	}
	out, of := make([]GroupReport, len(t.Exchanges)), make([][]int, len(t.Exchanges))
	for _, i := range t.Servers {
		x := t.ExchangeOf(&t.Hosts[i])
		of[x] = append(of[x], i)
	}
	for x, servers := range of {
		out[x] = GroupReport{Name: t.Exchanges[x], Servers: len(servers)}
		if alone := *t; len(servers) > 0 {
			alone.Servers, alone.Exchanges = servers, nil
			out[x].LowerBound = bound(alone)
		}
	}
	for i, d := range to {
		if n := len(t.Servers); d >= 0 {
			g := &out[t.ExchangeOf(&t.Hosts[t.Servers[i%n]])]
			g.Phases = max(g.Phases, i/n+1)
		}
	}
	return out
}

// groupReports returns the figures of the exchanges of a plan.
func (s *Schedule) groupReports() []GroupReport {
	return GroupReports(&s.Tree.Common, s.Plan.To, func(alone topology.Common) int {
		t := *s.Tree
		t.Common = alone
		tree := forsTree(&t)
		tree.Closed = nil // tables may open the lanes
		return fors.ComputeBounds(tree).LowerBound
	})
}
