package daemon

import (
	"flag"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/gpu/lanes"
	"github.com/forsd/forsd/internal/server"
	"github.com/forsd/forsd/testbed/openapi"
)

var writeSchemas = flag.Bool("openapi", false, "write the schemas of docs/openapi.yaml again")

const description = "../../docs/openapi.yaml"

// TestOpenAPIHasEveryEndpoint compares the paths and roles in the description with those
// of the server.
func TestOpenAPIHasEveryEndpoint(t *testing.T) {
	want := map[string]string{}
	for pattern, role := range server.Endpoints(interfaces(newDaemon(t).components)) {
		want[strings.NewReplacer("...}", "}", "{$}", "").Replace(pattern)] = role.String()
	}
	if d := cmp.Diff(want, openapi.Operations(t, description)); d != "" {
		t.Errorf("endpoints and their roles (-server +%s):\n%s", description, d)
	}
}

// TestOpenAPITimes checks the names of times and durations.
func TestOpenAPITimes(t *testing.T) { openapi.Times(t, description) }

// TestOpenAPIHasEveryField compares the schemas with the types of the server's answers.
func TestOpenAPIHasEveryField(t *testing.T) {
	openapi.Schemas(t, description, *writeSchemas, openapi.Names{Schemas: map[reflect.Type]string{reflect.TypeFor[*api.Progress](): "{type: [integer, string]}"}, Prefixes: map[string]string{"lanes": "Lanes"}},
		api.Status{}, api.Topology{}, api.Cabling{}, api.ServerPlan{}, api.PlanChanges{}, api.PlanPhase{}, api.Epoch{}, api.Change{}, api.WhatIf{}, api.Forecast{}, api.Job{}, api.JobRequest{}, api.Preview{}, api.DrainRequest{}, api.Undrain{}, api.Drained{}, api.Caller{}, api.Token{}, api.TokenRequest{}, api.NewToken{}, api.Cables{}, api.ExchangeTimes{}, api.MeasuredList{}, api.CableEvent{}, api.HostPorts{}, lanes.Request{}, lanes.Plan{}, api.ReleaseRequest{}, api.HistoryPage{}, api.Reload{}, api.ReloadRequest{}, api.Error{})
}
