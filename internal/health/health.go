// Package health keeps the warnings in force. A warning is data: a stable code, a severity,
// a title, and a text. The meaning of each code, and the advice, are in advice.txt, from
// which docs/warnings.md is generated.
package health

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Severity is the severity of a warning.
type Severity string

// The severities: Info needs no action, Degraded has a cost, and Critical means that forsd
// cannot do its work.
const (
	Info     Severity = "info"
	Degraded Severity = "degraded"
	Critical Severity = "critical"
)

// rank orders the severities, worst first.
var rank = map[Severity]int{Critical: 0, Degraded: 1, Info: 2}

// AtLeast reports whether a severity is at least as bad as another.
func (s Severity) AtLeast(other Severity) bool { return rank[s] <= rank[other] }

// Warnable is a kind of warning.
type Warnable struct {
	Code     string
	Severity Severity
	Title    string
	Delay    time.Duration // how long it must last before it is shown
}

// Finding is a deviation: a stable code, and a description.
type Finding struct {
	Code string `json:"code"`
	Text string `json:"text"`
	// Node is the GUID of the switch, and Port its port. Both are 0 if the finding is
	// not about exactly one.
	Node uint64 `json:"-"`
	Port uint8  `json:"-"`
}

// Warning is a warning in force.
type Warning struct {
	Code     string    `json:"code"`
	Severity Severity  `json:"severity"`
	Title    string    `json:"title"`
	Text     string    `json:"text"`
	Since    time.Time `json:"raised_at"`
	Advice   string    `json:"advice,omitempty"`      // set by List only
	Runbook  string    `json:"runbook_url,omitempty"` // the page about the code; set by List only
}

// Tracker holds the warnings in force. It is safe for concurrent use.
type Tracker struct {
	telling sync.Mutex // held during a change and its notice, so that notices come in the order of the changes
	mu      sync.Mutex // guards the fields below
	kinds   map[string]Warnable
	raised  map[key]*raised
	notify  func(Warning, bool)
	former  map[string]time.Time // [code] when a warning was raised that was in force at the end of the run before
	until   time.Time            // a warning raised later is a new one
}

// raised is a warning in force, or one that waits for its delay.
type raised struct {
	Warning
	told bool // it has lasted for its delay
}

// key distinguishes warnings with the same code from different sources.
type key struct{ source, code string }

// NewTracker returns a tracker of the given kinds. If notify is not nil, the tracker calls it
// for every warning that has lasted for its delay and for its new texts (true), and when the
// warning is cleared (false). The call comes from the caller's goroutine, or after a delay from
// another one. Calls do not overlap, and notify must not change the tracker.
func NewTracker(kinds []Warnable, notify func(w Warning, on bool)) *Tracker {
	t := &Tracker{kinds: map[string]Warnable{}, raised: map[key]*raised{}, notify: notify, until: time.Now().Add(resumes)}
	if notify == nil {
		t.notify = func(Warning, bool) {}
	}
	for _, k := range kinds {
		t.kinds[k.Code] = k
	}
	return t
}

// resumes is how long after the start a warning of the run before goes on if it is raised.
const resumes = 10 * time.Minute

// Resume names the warnings in force at the end of the run before, by code, and when they were
// raised: those that are raised within ten minutes of the start are the same ones.
func (t *Tracker) Resume(former map[string]time.Time) {
	t.telling.Lock()
	defer t.telling.Unlock()
	t.mu.Lock()
	t.former = former
	var older []Warning
	for k, r := range t.raised {
		if at := t.since(k.code, r.Since); !at.Equal(r.Since) {
			if r.Since = at; r.told {
				older = append(older, r.Warning)
			}
		}
	}
	t.mu.Unlock()
	sortWarnings(older)
	for _, w := range older {
		t.notify(w, true)
	}
}

// since returns when a warning was raised that is in force now.
func (t *Tracker) since(code string, now time.Time) time.Time {
	if was, resumed := t.former[code]; resumed && now.Before(t.until) && was.Before(now) {
		return was
	}
	return now
}

// Raise puts a warning in force, or updates its text. A code of an unknown kind has the
// severity Degraded, and itself as title.
func (t *Tracker) Raise(code, text string, now time.Time) { t.raise("", code, text, now) }

// Clear ends a warning from Raise.
func (t *Tracker) Clear(code string) { t.clear(key{"", code}) }

func (t *Tracker) clear(k key) {
	t.telling.Lock()
	defer t.telling.Unlock()
	t.mu.Lock()
	old, on := t.raised[k]
	if delete(t.raised, k); on {
		delete(t.former, k.code)
	}
	t.mu.Unlock()
	if on && old.told {
		t.notify(old.Warning, false)
	}
}

// Set replaces all warnings of a source by findings. Texts with the same code are joined.
func (t *Tracker) Set(source string, found []Finding, now time.Time) {
	texts := map[string][]string{}
	for _, f := range found {
		texts[f.Code] = append(texts[f.Code], f.Text)
	}
	for _, w := range t.of(source) {
		if _, still := texts[w.Code]; !still {
			t.clear(key{source, w.Code})
		}
	}
	for _, code := range slices.Sorted(maps.Keys(texts)) {
		t.raise(source, code, Join(texts[code], 10), now)
	}
}

// Join joins texts, and counts those beyond the first few.
func Join(texts []string, most int) string {
	if len(texts) > most {
		return strings.Join(texts[:most], "; ") + fmt.Sprintf("; and %d more", len(texts)-most)
	}
	return strings.Join(texts, "; ")
}

func (t *Tracker) of(source string) []Warning {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []Warning
	for k, r := range t.raised {
		if k.source == source {
			out = append(out, r.Warning)
		}
	}
	sortWarnings(out)
	return out
}

func (t *Tracker) raise(source, code, text string, now time.Time) {
	t.telling.Lock()
	defer t.telling.Unlock()
	t.mu.Lock()
	kind, known := t.kinds[code]
	if !known {
		kind = Warnable{Code: code, Severity: Degraded, Title: code}
	}
	r, on := t.raised[key{source, code}]
	if !on {
		r = &raised{Warning: Warning{Code: code, Severity: kind.Severity, Title: kind.Title, Since: t.since(code, now)}, told: kind.Delay == 0}
		t.raised[key{source, code}] = r
		if !r.told {
			time.AfterFunc(kind.Delay, func() { t.due(key{source, code}, r) })
		}
	}
	news := r.told && (!on || r.Text != text)
	r.Text = text
	w := r.Warning
	t.mu.Unlock()
	if news {
		t.notify(w, true)
	}
}

// due announces a warning whose delay is over, unless it was cleared.
func (t *Tracker) due(k key, r *raised) {
	t.telling.Lock()
	defer t.telling.Unlock()
	t.mu.Lock()
	still := t.raised[k] == r
	r.told = still
	w := r.Warning
	t.mu.Unlock()
	if still {
		t.notify(w, true)
	}
}

// List returns the warnings in force that have lasted for their delay, worst first.
func (t *Tracker) List(now time.Time) []Warning {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := []Warning{}
	for _, r := range t.raised {
		if now.Sub(r.Since) >= t.kinds[r.Code].Delay {
			w := r.Warning
			w.Advice, w.Runbook = Advice(w.Code), Runbook(w.Code)
			out = append(out, w)
		}
	}
	sortWarnings(out)
	return out
}

func sortWarnings(ws []Warning) {
	slices.SortFunc(ws, func(a, b Warning) int {
		return cmp.Or(rank[a.Severity]-rank[b.Severity], strings.Compare(a.Code, b.Code), strings.Compare(a.Text, b.Text))
	})
}

// Explanation is the meaning of a warning and the advice about it. Both texts may contain
// Markdown code and links, which are relative to docs/. Commands has the shell commands that
// carry the advice out, a line each, or "". A line that is a comment is done by hand. Words in
// capitals stand for names in the warning's text.
type Explanation struct{ Meaning, Advice, Commands string }

//go:embed advice.txt
var adviceText string

// explanations has the entries of advice.txt by code. An entry has the code, the meaning if the
// warning's title does not suffice, the advice, and indented commands.
var explanations = func() map[string]Explanation {
	out := map[string]Explanation{}
	for entry := range strings.SplitSeq(strings.TrimSpace(adviceText), "\n\n") {
		text, commands, _ := strings.Cut(entry, "\n    ")
		lines := strings.Split(text, "\n")
		last := len(lines) - 1
		out[lines[0]] = Explanation{strings.Join(lines[1:last], " "), lines[last], strings.ReplaceAll(commands, "\n    ", "\n")}
	}
	return out
}()

// Explanations returns the explanations by code.
func Explanations() map[string]Explanation { return explanations }

var linked = regexp.MustCompile(`\[([^]]*)\]\(([^)#]*)[^)]*\)`)

// Advice returns the advice for a code in plain text, with the commands in lines of their own,
// or "" for an unknown code. Links become the names of documents: "Bad cables (operating.md)".
func Advice(code string) string {
	e := explanations[code]
	text := linked.ReplaceAllString(strings.ReplaceAll(e.Advice, "`", ""), "$1 ($2)")
	return strings.TrimSuffix(text+"\n"+e.Commands, "\n")
}

// manual is the page that has a heading for every code.
const manual = "https://github.com/forsd/forsd/blob/main/docs/warnings.md"

// Runbook returns the address of the page about a code.
func Runbook(code string) string { return manual + "#" + code }
