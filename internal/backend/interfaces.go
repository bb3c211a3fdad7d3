package backend

import (
	"net/http"
	"sync"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/describe"
	"github.com/forsd/forsd/internal/published"
	"github.com/forsd/forsd/internal/server"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// Interfaces returns the API's endpoints; peer answers the other forsd.
func (b *Backend) Interfaces(readOverTCP bool, peer func(*http.Request) (any, error)) server.Config {
	return server.Config{Backend: b, Jobs: Jobs{&b.Parts}, Plans: b.State.Plans, Bases: b.State.Bases, Events: b.State.Events, Past: b.History, Metrics: b.Metrics.Handler(), ReadOverTCP: readOverTCP,
		Ordered: b.Ordered, Refused: b.Metrics.Refused,
		Mount: map[api.Role]map[string]http.Handler{
			api.Reader: {
				"GET /v1/explain":          server.Read(b.explain),
				"GET /v1/baseline":         server.Read(b.showBaseline),
				"GET /v1/fabric":           server.Read(b.showCabling),
				"GET /v1/hosts":            server.Read(b.hostPorts),
				"GET /v1/baseline/preview": server.Read(b.previewAccept),
				"GET /v1/cables":           server.Read(b.showCables),
				"GET /v1/measured":         server.Read(func(*http.Request) (any, error) { return api.MeasuredList{Exchanges: b.measured.list()}, nil }),
				"GET /v1/drains":           server.Read(func(*http.Request) (any, error) { return api.Drained{Drains: b.drains(nil)}, nil }),
				"GET /v1/tables":           server.Answer(func(*http.Request) (any, error) { return b.Tables() }),
			},
			api.Viewer: {"POST /v1/gpu/lanes": server.Answer(b.pinOnLanes)},
			api.Operator: {
				"POST /v1/cables/release": server.Answer(b.releaseCable),
				"POST /v1/drains":         server.Answer(b.drain),
				"POST /v1/undrain":        server.Answer(b.undrain),
			},
			api.Administrator: {
				"POST /v1/reload":          server.Answer(b.reload),
				"POST /v1/baseline/accept": server.Answer(func(r *http.Request) (any, error) { return b.Accept(r.Context()) }),
				server.ForPeer:             server.Answer(peer),
			}}}
}

// explain answers /v1/explain?src=…&dst=… with the phase, the lane and every hop of a pair,
// traced through the tables that were read back.
func (b *Backend) explain(r *http.Request) (any, error) {
	now := b.State.Now()
	e, v, tables := now.Epoch, now.Latest, b.Desk.InSwitches()
	if e == nil || v == nil || tables == nil {
		return nil, api.Errorf(api.CodeNoPlan, "no verified plan is in force yet")
	}
	if v.Kind == controller.OwnRoutes {
		return nil, v.NoTree("a transfer has no lane to explain")
	}
	var ends [2]int
	for i, name := range []string{"src", "dst"} {
		s, err := e.Plan.Find(r.FormValue(name))
		if err != nil {
			return nil, api.NotFound("%s: %v", name, err)
		}
		ends[i] = s
	}
	x, err := planner.Explain(v.Tree, tables, e.Plan, ends[0], ends[1])
	if err != nil {
		return nil, api.Refused("%v", err)
	}
	return x, nil
}

// showBaseline answers /v1/baseline with the file's content.
func (b *Backend) showBaseline(*http.Request) (any, error) {
	base := b.State.Now().Baseline
	if base == nil {
		return nil, api.NotFound("no fabric has been accepted yet: there is no baseline")
	}
	return base, nil
}

// errNoFabric is the answer to requests that need a fabric.
var errNoFabric = api.Errorf(api.CodeNoPlan, "no fabric has been seen yet")

// showCabling answers /v1/fabric.
func (b *Backend) showCabling(*http.Request) (any, error) {
	v := b.State.Now().Latest
	if v == nil {
		return nil, errNoFabric
	}
	return describe.Cabling(v.Fabric, v.SeenAt), nil
}

// showCables answers /v1/cables.
func (b *Backend) showCables(*http.Request) (any, error) {
	var tree *topology.FatTree
	now := b.State.Now()
	if now.Latest != nil {
		tree = now.Latest.Tree
	}
	return b.Cables.Answer(tree, now.Held), nil
}

// releaseCable answers POST /v1/cables/release.
func (b *Backend) releaseCable(r *http.Request) (any, error) {
	var q api.ReleaseRequest
	if err := server.ReadJSON(r, &q); err != nil {
		return nil, err
	}
	before := b.State.Now().EpochNumber()
	err := b.MayLead()
	if err == nil {
		err = b.Loop.ReleaseCable(r.Context(), q.Cable)
	}
	b.Ordered(r.Context(), "release cable "+q.Cable, "it is on probation", err)
	if err != nil {
		return nil, err
	}
	return b.change(before, q.Cable+" is on probation; plan and tables follow"), nil
}

// tablesText holds the text form of some tables.
type tablesText struct {
	mu   sync.Mutex // guards the fields below
	of   *lft.Tables
	text *published.Text
}

// Tables returns the tables last read back as text. All callers share one text.
func (b *Backend) Tables() (*published.Text, error) {
	kept := &b.tables
	kept.mu.Lock()
	defer kept.mu.Unlock()
	tables := b.Desk.InSwitches()
	if tables == nil {
		return nil, api.NotFound("no tables have been read back yet")
	}
	if tables != kept.of {
		text := &published.Text{}
		if err := tables.Write(text, nil); err != nil {
			return nil, err
		}
		kept.of, kept.text = tables, text
	}
	return kept.text, nil
}
