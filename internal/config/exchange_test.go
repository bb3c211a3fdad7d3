package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestExchange reads files with groups named by the configuration, and says what is wrong with
// them.
func TestExchange(t *testing.T) {
	dir := t.TempDir()
	file := func(text string) string {
		path := filepath.Join(dir, "groups.csv")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	parse := func(value string) (*Config, error) {
		return Parse([]byte("version: 1\nplanning:\n  exchange: "+value+"\n"), "x.yaml")
	}
	c, err := parse(file("group,server\na,n1\nb,n2\n"))
	if err != nil || len(c.Planning.Exchange.Rows) != 2 {
		t.Fatalf("%+v, %v", c, err)
	}
	changed, err := parse(file("group,server\na,n1\nb,n3\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, live, rest := c.With(changed); len(live) != 1 || live[0] != "planning.exchange" || len(rest) > 0 {
		t.Errorf("a changed file changes %v and %v", live, rest)
	}
	if all, err := parse("all"); err != nil || all.Planning.Exchange.Rows != nil {
		t.Errorf("all: %+v, %v", all, err)
	}
	for value, want := range map[string]string{
		"rail":                     `x.yaml:3: planning.exchange: "rail" is neither all, rails, nor an absolute path`,
		filepath.Join(dir, "none"): "x.yaml:3: planning.exchange: has groups that cannot be read: open " + dir,
		file("group,host\nn,m\n"):  "groups.csv: line 1: the header is \"group,host\": want group,server",
		"[a]":                      "x.yaml:3: planning.exchange: is a list or a group",
	} {
		if _, err := parse(value); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", value, err, want)
		}
	}
}
