package drains

import (
	"fmt"
	"strings"
	"time"

	"github.com/forsd/forsd/api"
)

// Drained is the code of the warning that tells which parts are out.
const Drained = "drained"

// Shown is the drain as the API shows it, but for its cables.
func (d *Drain) Shown() api.Drain {
	return api.Drain{Kind: string(d.Kind), Name: d.Name, GUID: d.GUID, Port: d.Port, State: string(d.State), Since: d.Since,
		At: d.At, Until: d.Until, Reason: d.Reason, By: d.By, Uses: append([]string{}, d.Uses...)}
}

// Named tells whether a text is the drain's own name, or the GUIDs of its part.
func (d *Drain) Named(text string) bool {
	guids := d.GUID.String()
	if d.Kind == Cable {
		guids += fmt.Sprintf("/%d", d.Port)
	}
	return text == d.Name || text == guids
}

// Text says how a part that is out stands.
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
