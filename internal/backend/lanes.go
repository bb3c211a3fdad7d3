package backend

import (
	"net/http"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/server"
	"github.com/forsd/forsd/internal/worker"
)

// The limits of POST /v1/gpu/lanes: all-to-all among 512 NICs.
const (
	lanesBody      = 16 << 20
	lanesTransfers = 1 << 18
)

// hostPorts answers GET /v1/hosts.
func (b *Backend) hostPorts(*http.Request) (any, error) {
	v := b.State.Now().Latest
	if v == nil {
		return nil, errNoFabric
	}
	out := api.HostPorts{Hosts: []api.HostPort{}}
	if tree := v.TwoLevels(); tree != nil {
		out.Lanes = tree.Lanes
	}
	f, exclude := v.Fabric, b.Settings.Now().Planning.Exclude
	rate, fastest := map[ib.GUID]float64{}, 0.0
	for _, h := range f.ConnectedHosts() {
		rate[h.GUID] = f.At(h.PortRef).Rate.Gbps()
		fastest = max(fastest, rate[h.GUID])
	}
	elsewhere := map[ib.GUID]bool{} // adapter ports that take no part
	for _, e := range f.EndPorts() {
		elsewhere[e.GUID] = !f.Nodes[e.Node].Role.TakesPart()
	}
	add := func(guid ib.GUID, name string) {
		if elsewhere[guid] || exclude != nil && exclude.MatchString(name) {
			return
		}
		gbps, up := rate[guid]
		percent := 100 // the default if the rate is not known
		if gbps > 0 {
			percent = int(100 * gbps / fastest)
		} else if !up {
			percent = 0
		}
		out.Hosts = append(out.Hosts, api.HostPort{GUID: guid, Name: name, Percent: percent})
	}
	if v.Tree == nil {
		for _, h := range f.ConnectedHosts() {
			add(h.GUID, f.Nodes[h.Node].Name)
		}
		return out, nil
	}
	for slot := range v.Tree.Baseline.Hosts() {
		add(slot.GUID, slot.Name)
	}
	return out, nil
}

// pinOnLanes answers POST /v1/gpu/lanes. It assigns the stages of an exchange between GPUs to
// lanes of the current fabric, except those held back.
func (b *Backend) pinOnLanes(r *http.Request) (any, error) {
	body, err := server.ReadBody(r, lanesBody)
	if err != nil {
		return nil, err
	}
	leave, err := b.Workers.Questions(r.Context()).Enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	var q worker.PinRequest
	if err := api.Decode(body, &q.Request); err != nil {
		return nil, err
	}
	n := 0
	for _, stage := range q.Request.Stages {
		n += len(stage)
	}
	if n > lanesTransfers {
		return nil, api.BadRequest("%d transfers: this takes %d at most; forsplan gpu --fabric pins more", n, lanesTransfers)
	}
	v := b.State.Now().Latest
	if v == nil {
		return nil, errNoFabric
	}
	if q.Tree = v.TwoLevels(); q.Tree == nil {
		return nil, api.Refused("the fabric is not a fat tree of two levels: there are no lanes to pin stages on")
	}
	q.Tree, q.Settings, q.Tables = v.Held(b.State.Now().Held), worker.Settings(b.Planning), b.Desk.InSwitches()
	if q.Tables == nil {
		return nil, api.Errorf(api.CodeNoPlan, "the tables of the switches have not been read back yet")
	}
	return worker.Pin(r.Context(), b.Workers.Questions(r.Context()), &q)
}
