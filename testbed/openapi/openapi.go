// Package openapi compares descriptions of HTTP interfaces with the Go types and the endpoints
// of their servers, for tests.
package openapi

import (
	"encoding"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
)

// Operations are the operations of a description, as "GET /path", with their fields
// x-role.
func Operations(t *testing.T, file string) (roles map[string]string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]any
	}
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	roles = map[string]string{}
	for path, operations := range doc.Paths {
		for method, operation := range operations {
			if method != "parameters" {
				roles[strings.ToUpper(method)+" "+path] = fmt.Sprint(operation.(map[string]any)["x-role"])
			}
		}
	}
	return roles
}

// otherwise matches names that a time or a duration might have instead of one that ends in _at
// or _seconds.
var otherwise = regexp.MustCompile(`(?:^|_)(?:ms|ns|us|since|until|expires|created|started|ended|duration|timeout)$|^seconds$`)

// Times checks the properties of a description: exactly the names of times end in _at, and
// those of durations end in _seconds and are numbers.
func Times(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	found := 0
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, x := range v {
				walk(x)
			}
		case map[string]any:
			properties, _ := v["properties"].(map[string]any)
			for name, p := range properties {
				of := fmt.Sprint(p)
				found++
				if isTime := strings.Contains(of, "date-time"); isTime != strings.HasSuffix(name, "_at") || otherwise.MatchString(name) ||
					strings.HasSuffix(name, "_seconds") && !strings.Contains(of, "number") && !strings.Contains(of, "integer") {
					t.Errorf("%s: %s is %s: want times under _at and durations under _seconds", file, name, of)
				}
			}
			for _, x := range v {
				walk(x)
			}
		}
	}
	walk(doc)
	if found < 50 {
		t.Errorf("%s: %d properties", file, found)
	}
}

// Names are the names of schemas that differ from their types'.
type Names struct {
	Schemas  map[reflect.Type]string // of types that have a form of their own
	Prefixes map[string]string       // of the types of a package, by its name
}

// Schemas compares the schemas of a description, which are at its end, with those of types and
// their fields, or writes them.
func Schemas(t *testing.T, file string, write bool, n Names, values ...any) {
	t.Helper()
	s := schemas{Names: n, known: map[reflect.Type]bool{}}
	for _, v := range values {
		s.object(reflect.TypeOf(v))
	}
	slices.Sort(s.list)
	want := strings.Join(s.list, "")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, have, found := strings.Cut(string(text), "\n  schemas:\n")
	if write {
		if err := os.WriteFile(file, []byte(head+"\n  schemas:\n"+want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if d := cmp.Diff(want, have); d != "" || !found {
		t.Errorf("schemas (-types +%s); -run OpenAPI -openapi writes them:\n%s", file, d)
	}
	names := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^    ([A-Za-z]+):$`).FindAllStringSubmatch(want, -1) {
		if names[m[1]] {
			t.Errorf("two types are called %s", m[1])
		}
		names[m[1]] = true
	}
	for _, m := range regexp.MustCompile(`#/components/schemas/([A-Za-z]+)`).FindAllStringSubmatch(string(text), -1) {
		if !names[m[1]] {
			t.Errorf("schema %s is referred to and not there", m[1])
		}
	}
}

// schemas are those of Go types and their fields.
type schemas struct {
	Names
	known map[reflect.Type]bool
	list  []string
}

// object adds the schema of a struct.
func (s *schemas) object(t reflect.Type) {
	if s.known[t] {
		return
	}
	s.known[t] = true
	var b strings.Builder
	var required []string
	fmt.Fprintf(&b, "    %s:\n      type: object\n      properties:\n", s.name(t))
	for f := range fields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || name == "" {
			continue
		}
		if options == "" {
			required = append(required, name)
		}
		fmt.Fprintf(&b, "        %s: %s\n", name, s.of(f.Type))
	}
	if required != nil {
		fmt.Fprintf(&b, "      required: [%s]\n", strings.Join(required, ", "))
	}
	s.list = append(s.list, b.String())
}

// name is the name of a type's schema.
func (s *schemas) name(t reflect.Type) string { return s.Prefixes[path.Base(t.PkgPath())] + t.Name() }

// fields are those of a struct, with those of structs within it.
func fields(t reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for _, f := range reflect.VisibleFields(t) {
			if !f.Anonymous && f.IsExported() && !yield(f) {
				return
			}
		}
	}
}

// of is the schema of a type, on one line.
func (s *schemas) of(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return "{type: string, format: date-time}"
	case t == reflect.TypeFor[json.RawMessage]():
		return "{type: object}"
	case s.Schemas[t] != "":
		return s.Schemas[t]
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()), t.Implements(reflect.TypeFor[json.Marshaler]()):
		return "{type: string}"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.Struct:
		s.object(t)
		return fmt.Sprintf("{$ref: %q}", "#/components/schemas/"+s.name(t))
	case reflect.Slice, reflect.Array:
		return "{type: array, items: " + s.of(t.Elem()) + "}"
	case reflect.Map:
		return "{type: object, additionalProperties: " + s.of(t.Elem()) + "}"
	case reflect.Bool:
		return "{type: boolean}"
	case reflect.String:
		return "{type: string}"
	case reflect.Float32, reflect.Float64:
		return "{type: number}"
	}
	return "{type: integer}"
}
