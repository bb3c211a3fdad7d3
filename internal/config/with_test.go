package config

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWith merges a configuration in which every key differs, and checks that only the live
// ones change.
func TestWith(t *testing.T) {
	next, err := Parse([]byte(everything), "x.yaml")
	if err != nil {
		t.Fatal(err)
	}
	now := Default()
	merged, live, rest := now.With(next)
	want := strings.Fields(`opensm.sweep_timeout planning.exclude planning.roles.aggregation planning.roles.gateway planning.roles.storage
		planning.roles.management planning.exchange planning.other_fabrics jobs.own_lanes damping.hold_down damping.max_hold_down damping.flaps damping.window
		safety.max_loss safety.confirm retry.first retry.max log.level`)
	if d := cmp.Diff(want, live); d != "" {
		t.Errorf("live keys (-want +got):\n%s", d)
	}
	for _, key := range []string{"mode", "state_dir", "opensm.dump_command", "api.listen", "planning.engine", "log.format"} {
		if !slices.Contains(rest, key) {
			t.Errorf("%s differs and is not told of: %v", key, rest)
		}
	}
	if again, more, left := merged.With(next); len(more) > 0 || !slices.Equal(left, rest) || cmp.Diff(merged, again, byText) != "" {
		t.Errorf("taken a second time: %v, %v", more, left)
	}
	if merged.StateDir != now.StateDir || merged.Planning.Engine != now.Planning.Engine || merged.Safety != next.Safety || merged.Planning.Exclude != next.Planning.Exclude {
		t.Errorf("merged: %+v", merged)
	}
	if d := cmp.Diff(Default(), now, byText); d != "" {
		t.Errorf("the configuration itself has changed:\n%s", d)
	}
	if same, live, rest := now.With(Default()); len(live)+len(rest) > 0 || cmp.Diff(now, same, byText) != "" {
		t.Errorf("nothing differs, and %v, %v are told of", live, rest)
	}
	// Two spellings of an empty value are the same.
	a, b := Default(), Default()
	a.OpenSM.DiscoverCommand, b.OpenSM.DiscoverCommand = nil, []string{}
	if _, live, rest := a.With(b); len(live)+len(rest) > 0 {
		t.Errorf("no command differs from none: %v", rest)
	}
}

// TestLiveKeysAreDocumented compares the texts that name the live keys with the tags.
func TestLiveKeysAreDocumented(t *testing.T) {
	var live []string
	var walk func(reflect.Type, string)
	walk = func(group reflect.Type, prefix string) {
		for i := range group.NumField() {
			f := group.Field(i)
			if key := prefix + f.Tag.Get("yaml"); f.Tag.Get("live") != "" {
				live = append(live, key)
			} else if isGroup(f.Type) {
				walk(f.Type, key+".")
			}
		}
	}
	walk(reflect.TypeFor[Config](), "")
	for _, doc := range []struct{ path, from, to string }{
		{"../../configs/forsd.yaml", "what it\n# says of", "The other keys"},
		{"../../docs/operating.md", "**At once:**", "Where other hosts"},
		{"../cli/change.go", "take up what may change while\nit runs:", "Other\nkeys"},
	} {
		text, err := os.ReadFile(doc.path)
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(string(text), doc.from)
		list, _, found := strings.Cut(after, doc.to)
		words := strings.FieldsFunc(strings.ReplaceAll(list, " and ", " "), func(r rune) bool { return strings.ContainsRune(" ,`#\n", r) })
		for i := range words {
			words[i] = strings.TrimSuffix(words[i], ".")
		}
		words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
		slices.Sort(words)
		if slices.Sort(live); !found || !slices.Equal(words, live) {
			t.Errorf("%s names %q, and live are %q", doc.path, words, live)
		}
	}
}
