// Command sbom prints what programs are made of, as a bill of materials in CycloneDX's
// form: the Go modules that are linked into them, with their versions and checksums, and
// the C libraries that they need where they run.
package main

import (
	"cmp"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

type component struct {
	Type       string     `json:"type"`
	Name       string     `json:"name"`
	Version    string     `json:"version,omitempty"`
	PURL       string     `json:"purl,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: sbom VERSION DATE PROGRAM...")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintf(os.Stderr, "sbom: %v\n", err)
		os.Exit(1)
	}
}

func write(version, date string, programs []string) error {
	at, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return err
	}
	parts := map[string]*component{}
	for _, path := range programs {
		if err := collect(parts, path); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	list := slices.SortedFunc(maps.Values(parts), func(a, b *component) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version))
	})
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	return out.Encode(map[string]any{"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
		"metadata":   map[string]any{"timestamp": at.Format(time.RFC3339), "component": component{Type: "application", Name: "forsd", Version: version}},
		"components": list})
}

// collect adds what a program or library is made of.
func collect(parts map[string]*component, path string) error {
	user := property{"forsd:used-by", filepath.Base(path)}
	add := func(c component) {
		key := c.Type + c.Name + c.Version
		if parts[key] == nil {
			parts[key] = &c
		}
		parts[key].Properties = append(parts[key].Properties, user)
	}
	if info, err := buildinfo.ReadFile(path); err == nil { // of C there is none
		add(component{Type: "platform", Name: "go", Version: strings.TrimPrefix(info.GoVersion, "go"), PURL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")})
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			add(component{Type: "library", Name: m.Path, Version: m.Version, PURL: "pkg:golang/" + m.Path + "@" + m.Version, Properties: []property{{"go:sum", m.Sum}}})
		}
	}
	f, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	needed, err := f.ImportedLibraries()
	for _, name := range needed {
		add(component{Type: "file", Name: name})
	}
	return err
}
