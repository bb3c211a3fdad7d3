package exclusions

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/topology"
)

// DrainedWarning is the code of the warning that lists the drained parts.
const DrainedWarning = "drained"

// APIView returns the drain in the API's form, without its cables.
func (d *Drain) APIView() api.Drain {
	return api.Drain{Kind: string(d.Kind), Name: d.Name, GUID: d.GUID, Port: d.Port, State: string(d.State), Since: d.Since,
		At: d.At, Until: d.Until, Reason: d.Reason, By: d.By, Uses: append([]string{}, d.Uses...)}
}

// Resolve lists the drains that a text refers to: all, a part of a tree in the notation of Find,
// a drain by its name, or the GUIDs of its part. Other drained cables are found by their ends
// at the time of the drain, because another cable may have their lane now.
func Resolve(t *topology.FatTree, all []Drain, text string) (out []Part) {
	part := Part{}
	if t != nil {
		part, _, _ = Find(t, text)
	}
	end := text
	if node, port, ok := topology.CutPort(text); ok {
		end = node + portOf + port
	}
	for _, means := range []func(d *Drain) bool{
		func(d *Drain) bool {
			return text == "all" || d.Part == part || text == d.Name || text == d.GUID.String() && d.Kind != Cable || d.Kind == Cable && text == fmt.Sprintf("%s/%d", d.GUID, d.Port)
		},
		func(d *Drain) bool { return d.Kind == Cable && slices.Contains(strings.Split(d.Name, between), end) },
	} {
		for i := range all {
			if means(&all[i]) {
				out = append(out, all[i].Part)
			}
		}
		if out != nil {
			break
		}
	}
	return out
}

// The separators in the name of a cable: between its ends, and between switch and port.
const between, portOf = " – ", " port "

// Text describes the state of a drained part.
func (d *Drain) Text() string {
	text := d.Name + " is safe to pull"
	switch {
	case d.State == Safe:
	case len(d.Uses) > 0:
		text = fmt.Sprintf("%s is being drained: %s", d.Name, strings.Join(d.Uses, ", "))
	case !d.Clear.IsZero():
		text = d.Name + " is being drained: exchanges by the plan before have their time to end"
	default:
		text = d.Name + " is being drained"
	}
	if d.Reason != "" {
		text += " (" + d.Reason + ")"
	}
	if !d.Until.IsZero() {
		text += ", until " + d.Until.Local().Format(time.DateTime)
	}
	return text
}
