package configs

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/internal/config"
)

// byText compares regular expressions.
var byText = cmp.Comparer(func(a, b *regexp.Regexp) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.String() == b.String()
})

func TestShippedFileIsDefault(t *testing.T) {
	got, err := config.Load("forsd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(config.Default(), got, byText); d != "" {
		t.Errorf("forsd.yaml states other defaults than the program has (-program +file):\n%s", d)
	}
}

// keysOf lists the keys of a configuration type, such as "opensm.lmc".
func keysOf(t reflect.Type, prefix string) []string {
	var keys []string
	for i := range t.NumField() {
		key := prefix + t.Field(i).Tag.Get("yaml")
		switch f := t.Field(i); {
		case f.Anonymous: // its keys are those of the group that it is in
			keys = append(keys, keysOf(f.Type, prefix)...)
		case f.Type.Kind() == reflect.Struct && f.Type != reflect.TypeFor[config.Exchange]():
			keys = append(keys, keysOf(f.Type, key+".")...)
		default:
			keys = append(keys, key)
		}
	}
	return keys
}

// flatten lists the keys of a decoded file in the same form.
func flatten(m map[string]any, prefix string) []string {
	var keys []string
	for k, v := range m {
		if group, ok := v.(map[string]any); ok {
			keys = append(keys, flatten(group, prefix+k+".")...)
		} else {
			keys = append(keys, prefix+k)
		}
	}
	return keys
}

func TestShippedFileHasEveryKey(t *testing.T) {
	data, err := os.ReadFile("forsd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := yaml.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	want, got := keysOf(reflect.TypeFor[config.Config](), ""), flatten(m, "")
	slices.Sort(want)
	slices.Sort(got)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("keys (-program +forsd.yaml):\n%s", d)
	}
}

// settings reads key and value of each line that is not a comment.
func settings(t *testing.T, path string, disabled bool) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m := map[string]string{}
	for sc := bufio.NewScanner(f); sc.Scan(); {
		line := sc.Text()
		if disabled {
			line = strings.TrimPrefix(line, "#")
		}
		key, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok && !strings.HasPrefix(key, "#") {
			m[key] = strings.TrimSpace(value)
		}
	}
	return m
}

// OpenSM ignores settings that it does not know, with a line in its log at best,
// so a misspelt one would stay unnoticed.
func TestFragmentNamesSettingsOfOpenSM(t *testing.T) {
	opensm, err := exec.LookPath("opensm")
	if err != nil {
		opensm = "/usr/sbin/opensm"
	}
	conf := filepath.Join(t.TempDir(), "opensm.conf")
	out, err := exec.Command(opensm, "--create-config", conf).CombinedOutput()
	if _, statErr := os.Stat(conf); statErr != nil {
		t.Fatalf("opensm wrote no configuration (%v): %s\nmake deps installs it", err, out)
	}
	known := settings(t, conf, true)
	for key := range settings(t, "opensm.conf.fragment", false) {
		if _, ok := known[key]; !ok {
			t.Errorf("OpenSM has no setting %q", key)
		}
	}
}

func TestFragmentAgreesWithDefaults(t *testing.T) {
	got, def := settings(t, "opensm.conf.fragment", false), config.Default()
	for key, want := range map[string]string{
		"lfts_file":       def.OpenSM.LFTsFile,
		"root_guid_file":  def.OpenSM.RootFile,
		"dump_files_dir":  def.OpenSM.DumpDir + "/",
		"routing_engine":  "fors,file,updn",
		"use_ucast_cache": "FALSE",
		"sweep_on_trap":   "TRUE",
		"lmc":             "5",

		"event_plugin_name":    "forsosm",
		"event_plugin_options": "socket=" + def.OpenSM.Plugin.Socket + " deadline=50 user=forsd",
	} {
		if got[key] != want {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
	}
}
