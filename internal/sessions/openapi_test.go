package sessions

import (
	"flag"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/optical/ocs"
	"github.com/forsd/forsd/testbed/openapi"
)

var writeSchemas = flag.Bool("openapi", false, "write the schemas of docs/forsplan.yaml again")

const description = "../../docs/forsplan.yaml"

// GPUSessions is the answer of GET /v1/gpu/sessions.
type GPUSessions struct {
	Sessions []GPUSession `json:"sessions"`
}

// OCSSessions is the answer of GET /v1/optical/ocs/sessions.
type OCSSessions struct {
	Sessions []OCSSession `json:"sessions"`
}

// TestOpenAPI compares the description with the server's endpoints and types.
func TestOpenAPI(t *testing.T) {
	openapi.Times(t, description)
	openapi.Schemas(t, description, *writeSchemas, openapi.Names{}, GPURequest{}, GPUSessions{}, GPUFailures{}, OCSSessions{}, ocs.Damage{}, api.Error{})
	var have []string
	for operation := range openapi.Operations(t, description) {
		have = append(have, operation)
	}
	slices.Sort(have)
	if d := cmp.Diff(newSite().patterns(), have); d != "" {
		t.Errorf("endpoints (-server +%s):\n%s", description, d)
	}
}

// patterns returns the patterns of the server's endpoints.
func (x *site) patterns() (all []string) {
	for _, path := range []string{"/v1/gpu/sessions", "/v1/optical/ocs/sessions"} {
		for _, rest := range []string{"", "/{session}", "/{session}/failures", "/{session}/frames", "/{session}/periods"} {
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete, http.MethodPut, http.MethodPatch} {
				r, err := http.NewRequest(method, "http://forsplan"+path+rest, nil)
				if err != nil {
					panic(err) // the patterns are constants
				}
				if _, pattern := x.mux.Handler(r); pattern == method+" "+path+rest {
					all = append(all, pattern)
				}
			}
		}
	}
	slices.Sort(all)
	return all
}
