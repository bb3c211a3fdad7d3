package history

import (
	"encoding/json"
	"regexp"
	"slices"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/topology"
)

// about is what an event can be found by.
type about struct {
	subjects []string // cables by either end ("node/port"), nodes, people prefixed with "by:", and the warning's code
	code     string   // of a warning, else ""
	begins   bool     // the warning is raised, not cleared
}

// person returns the subject for a person.
func person(name string) string { return "by:" + name }

// mostSubjects limits the subjects of one event: a spine that fails has a cable to every
// leaf.
const mostSubjects = 512

// cable matches cables at the beginning of a sentence and of each item of a list: "Leaf007
// port 31 – Spine010 port 8 went down". Node names may contain any character.
var cable = regexp.MustCompile(`(?:^|[;:,] )(?:the cable )?(.+?) port ([0-9]+) – (.+?) port ([0-9]+)`)

// aboutOf extracts the subjects from an event's data.
func aboutOf(kind string, data json.RawMessage) about {
	var out about
	switch kind {
	case api.KindWarning:
		var w struct {
			Code   string
			Raised bool
		}
		if json.Unmarshal(data, &w) == nil && w.Code != "" {
			out.code, out.begins = w.Code, w.Raised
			out.subjects = append(out.subjects, w.Code)
		}
	case api.KindOrder:
		var o api.Order
		if json.Unmarshal(data, &o) == nil {
			out.subjects = append(out.subjects, person(o.By.Name()))
		}
	}
	if kind == api.KindLink {
		var c topology.Change
		if json.Unmarshal(data, &c) == nil {
			out.subjects = append(out.subjects, c.At.Node.String())
			if c.Peer.Node != 0 {
				out.subjects = append(out.subjects, c.Peer.Node.String())
			}
		}
	}
	var value any
	if json.Unmarshal(data, &value) == nil {
		out.sentences(value)
	}
	slices.Sort(out.subjects)
	out.subjects = slices.Compact(out.subjects)
	return out
}

// sentences adds the cables, and their end nodes, that occur in strings of a JSON value.
func (a *about) sentences(value any) {
	switch v := value.(type) {
	case string:
		for _, m := range cable.FindAllStringSubmatch(v, -1) {
			if len(a.subjects)+4 > mostSubjects {
				return
			}
			a.subjects = append(a.subjects, m[1], m[1]+"/"+m[2], m[3], m[3]+"/"+m[4])
		}
	case []any:
		for _, x := range v {
			a.sentences(x)
		}
	case map[string]any:
		for _, x := range v {
			a.sentences(x)
		}
	}
}
