package daemon

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/exclusions"
	"github.com/forsd/forsd/internal/standby"
)

// meetings counts how often each kind of event has met each state of forsd.
type meetings map[string]map[string]int // [state][kind]

func (c meetings) add(state, kind string, n int) {
	if c[state] == nil {
		c[state] = map[string]int{}
	}
	c[state][kind] += n
}

// states are those of forsd, the more telling ones first.
var states = []string{"killed", "takes over", "follows", "disk fails", "no manager", "restarted", "job planned", "draining", "planning", "publishing", "uploading", "reading back",
	"backing off", "suspect", "returning", "held back", "at rest"}

// inState returns the state of the forsd of this side.
func (w *world) inState() string {
	p := w.forsd
	if p == nil || p.d == nil {
		return "killed"
	}
	switch role := p.d.standby.Role(); {
	case role == standby.TakesOver:
		return "takes over"
	case role == standby.Follows:
		return "follows"
	case w.disk.fault != "" || w.failAt != nil || p.d.store.Disk.PendingErr() != nil:
		return "disk fails"
	case w.manager.pid == 0:
		return "no manager"
	case p.blind:
		return "restarted"
	}
	for _, o := range w.orders {
		if !o.done && strings.HasPrefix(o.what, "job") {
			return "job planned"
		}
	}
	switch s := p.d.core.State(); s {
	case controller.Idle:
	case controller.Suspect:
		return "suspect"
	case controller.Backoff:
		return "backing off"
	default:
		for text, state := range map[string]string{"planning": "planning", "publishing": "publishing", "reading": "reading back"} {
			if strings.HasPrefix(s.String(), text) {
				return state
			}
		}
		return "uploading"
	}
	switch {
	case slices.ContainsFunc(p.d.state.Now().Drains, func(d exclusions.Drain) bool { return d.State != exclusions.Safe }):
		return "draining"
	case !w.manager.current():
		return "returning"
	case len(p.d.core.Bouncing()) > 0:
		return "held back"
	}
	return "at rest"
}

// rarer chooses one of two kinds of events. It has met this state less often in this history, or
// as often and is drawn less often.
func (w *world) rarer(a, b string) string {
	weight := func(kind string) int {
		return happenings[slices.IndexFunc(happenings, func(k kindOfEvent) bool { return k.kind == kind })].weight
	}
	state := w.cover[w.inState()]
	if state[b] < state[a] || state[b] == state[a] && weight(b) < weight(a) {
		return b
	}
	return a
}

// String is a table: a row for each state, and a column for each kind.
func (c meetings) String() string {
	kinds := map[string]bool{}
	for _, row := range c {
		for kind := range row {
			kinds[kind] = true
		}
	}
	columns := slices.Sorted(maps.Keys(kinds))
	var out strings.Builder
	met := 0
	fmt.Fprintf(&out, "%12s", "")
	for _, kind := range columns {
		fmt.Fprintf(&out, " %8s", kind)
	}
	for _, state := range states {
		fmt.Fprintf(&out, "\n%12s", state)
		for _, kind := range columns {
			if fmt.Fprintf(&out, " %8d", c[state][kind]); c[state][kind] > 0 {
				met++
			}
		}
	}
	fmt.Fprintf(&out, "\n%d of %d pairs of a state and an event have occurred\n", met, len(states)*len(columns))
	return out.String()
}
