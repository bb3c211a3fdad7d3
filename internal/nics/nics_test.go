package nics

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/gpu"
	"github.com/forsd/forsd/gpu/lanes"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// forsd acts as a forsd that manages a tree, with the ports of its hosts and some rates.
type forsd struct {
	tree    *topology.FatTree
	percent map[int]int // of some hosts, by number
	lanes   int
	spoils  bool // its answer lacks a part
}

func (f *forsd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var out any
	switch r.URL.Path {
	case "/v1/hosts":
		all := api.HostPorts{Lanes: f.lanes}
		for i, h := range f.tree.Hosts {
			percent, some := f.percent[i]
			if !some {
				percent = 100
			}
			all.Hosts = append(all.Hosts, api.HostPort{GUID: h.GUID, Name: h.Name, Percent: percent})
		}
		out = all
	case "/v1/gpu/lanes":
		var q lanes.Request
		err := json.NewDecoder(r.Body).Decode(&q)
		if err == nil {
			var plan *lanes.Plan
			if plan, err = lanes.Pin(r.Context(), &q, f.tree); err == nil {
				if out = plan; f.spoils {
					plan.Parts = plan.Parts[1:]
				}
			}
		}
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			out = api.BadRequest("%v", err)
		}
	}
	_ = json.NewEncoder(w).Encode(out) // fails only if the client has disconnected
}

// fabric serves a fabric with 4 leaves, 4 hosts per leaf and 4 lanes over HTTP.
func fabric(t *testing.T) (*forsd, Fabric) {
	t.Helper()
	f := &forsd{tree: fabgen.Damaged(t, fabgen.Spec{Spines: 4, Leaves: 4, LMC: 2}), percent: map[int]int{}, lanes: 4}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	c, err := api.Dial(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return f, Fabric{c}
}

// uniform returns a uniform exchange of servers with 4 GPUs each.
func uniform(t *testing.T, servers int) *gpu.Traffic {
	t.Helper()
	traffic, err := gpu.Generate(gpu.Cluster{Servers: servers, GPUs: 4}, gpu.Uniform, 1<<20, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	return traffic
}

// TestPlannedAround plans around the ports that are down and pins the plan on lanes, without
// any input from the caller about failures.
func TestPlannedAround(t *testing.T) {
	f, x := fabric(t)
	f.percent[6], f.percent[9] = 0, 50
	traffic := uniform(t, 4)
	c, err := x.Cluster(t.Context(), nil, 4)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"1:2"}, c.Bad); d != "" || len(c.Notes) != 2 || !strings.Contains(c.Notes[0], "NIC 1:2, "+f.tree.Hosts[6].Name+", is down") || !strings.Contains(c.Notes[1], "50 %") {
		t.Errorf("%q %q", c.Bad, c.Notes)
	}
	site, err := gpu.Without(nil, traffic.Cluster, false, c.Bad, nil)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := new(gpu.Planner).PlanSite(t.Context(), site, traffic.Bytes, gpu.Options{Model: gpu.DefaultModel})
	if err != nil {
		t.Fatal(err)
	}
	pinned, err := x.Pin(t.Context(), c, plan, gpu.DefaultModel)
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(pinned.Hosts, f.tree.Hosts[6].Name) || !slices.Contains(pinned.Hosts, f.tree.Hosts[9].Name) || pinned.Length < plan.Length {
		t.Errorf("%d bytes on %q", pinned.Length, pinned.Hosts)
	}
	f.spoils = true
	if _, err := x.Pin(t.Context(), c, plan, gpu.DefaultModel); err == nil || !strings.Contains(err.Error(), "the answer of forsd to /v1/gpu/lanes is wrong") {
		t.Errorf("a part is missing: %v", err)
	}
	// Without lanes a slower NIC gets less traffic.
	f.lanes = 0
	if c, err = x.Cluster(t.Context(), nil, 4); err != nil || !slices.Equal(c.Bad, []string{"1:2", "2:1:50"}) {
		t.Errorf("%+v %v", c, err)
	}
	if pinned, err := x.Pin(t.Context(), c, plan, gpu.DefaultModel); pinned != nil || err != nil {
		t.Errorf("pinned on no lanes: %+v %v", pinned, err)
	}
}

// TestNamed finds hosts by names and GUIDs, and refuses hosts outside the fabric.
func TestNamed(t *testing.T) {
	f, x := fabric(t)
	host := func(i int) *topology.Host { return &f.tree.Hosts[i] }
	names := []string{host(3).Name, host(8).GUID.String()}
	f.percent[8] = 0
	c, err := x.Cluster(t.Context(), names, 2)
	if err != nil || !slices.Equal(c.Bad, []string{"1:0"}) {
		t.Fatalf("%+v %v", c, err)
	}
	f.tree.Hosts[5].Name = host(3).Name
	for want, names := range map[string][]string{
		"nobody is not a host of the fabric": {"nobody", host(1).Name},
		"2 hosts are called " + host(3).Name: {host(3).Name, host(1).Name},
		"3 NICs of 2 servers":                {host(0).Name, host(1).Name, host(2).Name},
	} {
		if _, err := x.Cluster(t.Context(), names, 2); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	if _, err := Request(&gpu.Plan{Cluster: gpu.Cluster{Servers: 2, GPUs: 2}}, gpu.DefaultModel, names); err == nil || !strings.Contains(err.Error(), "there are 1 of each server") {
		t.Errorf("two NICs where there is one: %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := x.Cluster(gone, nil, 4); err == nil {
		t.Error("nobody asks any more")
	}
}
