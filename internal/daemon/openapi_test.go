package daemon

import (
	"encoding"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/access"
	"github.com/forsd/forsd/optical/ocs"
)

var writeSchemas = flag.Bool("openapi", false, "write the schemas of docs/openapi.yaml anew")

const description = "../../docs/openapi.yaml"

// TestOpenAPIHasEveryEndpoint holds the paths of the description to the patterns that
// the server answers, and the roles that it says they take to those that they do.
func TestOpenAPIHasEveryEndpoint(t *testing.T) {
	text, err := os.ReadFile(description)
	ok(t, err)
	var doc struct {
		Paths map[string]map[string]any
	}
	ok(t, yaml.Unmarshal(text, &doc))
	var have, want []string
	for path, operations := range doc.Paths {
		for method, operation := range operations {
			if method != "parameters" {
				have = append(have, strings.ToUpper(method)+" "+path+" takes "+fmt.Sprint(operation.(map[string]any)["x-role"]))
			}
		}
	}
	for pattern, role := range api.Endpoints(newDaemon(t).interfaces()) {
		want = append(want, strings.NewReplacer("...}", "}", "{$}", "").Replace(pattern)+" takes "+role.String())
	}
	slices.Sort(have)
	slices.Sort(want)
	if d := cmp.Diff(want, have); d != "" {
		t.Errorf("endpoints (-server +%s):\n%s", description, d)
	}
}

// TestOpenAPIHasEveryField holds the schemas to the types that the server answers with.
func TestOpenAPIHasEveryField(t *testing.T) {
	s := schemas{known: map[reflect.Type]bool{}}
	for _, v := range []any{api.Status{}, api.Topology{}, api.Cabling{}, api.ServerPlan{}, api.PlanChanges{}, api.PlanPhase{}, api.Epoch{}, api.Change{}, api.WhatIf{}, api.Forecast{}, api.Job{}, api.JobRequest{}, api.Preview{}, api.DrainRequest{}, api.Undrain{}, api.Drained{}, api.Caller{}, access.Token{}, api.TokenRequest{}, api.NewToken{}, api.Cables{}, api.CableEvent{}, api.GPUSessions{}, api.GPUFailures{}, api.GPUEvent{}, api.OCSSessions{}, api.OCSEvent{}, ocs.Damage{}, api.ReleaseRequest{}, api.HistoryPage{}, api.Reload{}, api.ReloadRequest{}, api.Error{}} {
		s.object(reflect.TypeOf(v))
	}
	slices.Sort(s.list)
	want := strings.Join(s.list, "")
	text, err := os.ReadFile(description)
	ok(t, err)
	head, have, found := strings.Cut(string(text), "\n  schemas:\n")
	if *writeSchemas {
		ok(t, os.WriteFile(description, []byte(head+"\n  schemas:\n"+want), 0o644))
	} else if d := cmp.Diff(want, have); d != "" || !found {
		t.Errorf("schemas (-types +%s); go test ./internal/daemon -run OpenAPI -openapi writes them:\n%s", description, d)
	}
	names := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^    ([A-Za-z]+):$`).FindAllStringSubmatch(want, -1) {
		names[m[1]] = true
	}
	for _, m := range regexp.MustCompile(`#/components/schemas/([A-Za-z]+)`).FindAllStringSubmatch(string(text), -1) {
		if !names[m[1]] {
			t.Errorf("schema %s is referred to and not there", m[1])
		}
	}
}

// schemas are those of Go types and of what these have.
type schemas struct {
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
	fmt.Fprintf(&b, "    %s:\n      type: object\n      properties:\n", t.Name())
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
	case t == reflect.TypeFor[*api.Progress]():
		return "{type: [integer, string]}"
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()), t.Implements(reflect.TypeFor[json.Marshaler]()):
		return "{type: string}"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.Struct:
		s.object(t)
		return fmt.Sprintf("{$ref: %q}", "#/components/schemas/"+t.Name())
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
