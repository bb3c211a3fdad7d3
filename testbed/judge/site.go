package judge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"
)

// Site judges the plans that a forsd publishes on its socket, for a fabric and the tables of its
// switches. It may be used for several forsd that serve one fabric, again and again, and
// requires that a number of a plan stands for that plan for ever. The zero value is ready.
type Site struct {
	Everyone bool // all adapters of the fabric take part, unless they are drained

	seen   map[string]uint64 // [kind and number of a plan] of its transfers
	agreed map[uint64]bool   // tables that ibdmchk has accepted
}

// visit is one judgement.
type visit struct {
	*Site
	*Fabric
	tables Tables
	ask    func(path string) ([]byte, error)
	away   map[string]bool // [name of a leaf] drained
	csv    []byte          // the transfers examined last
	last   *examination
}

// Judge judges a site at rest: its tables, the fabric's plans, and those of its jobs. Parts
// that are drained or isolated there are kept out of the plans of f from then on. The longest
// answers are asked for while fabric and tables are read.
func (s *Site) Judge(ctx context.Context, socket string, read func() (*Fabric, Tables, error)) (*Fabric, Tables, error) {
	ask := from(ctx, socket)
	type answer struct {
		path string
		body []byte
		err  error
	}
	const longest = "/v1/plan/phases?format=csv"
	paths := []string{longest, longest + "&lids=base"}
	asked := make(chan answer, len(paths))
	for _, path := range paths {
		go func() {
			body, err := ask(path)
			asked <- answer{path, body, err}
		}()
	}
	f, t, err := read()
	all := map[string]answer{}
	for range paths {
		a := <-asked
		all[a.path] = a
	}
	if err != nil {
		return nil, nil, err
	}
	err = s.judge(func(path string) ([]byte, error) {
		if a, known := all[path]; known {
			return a.body, a.err
		}
		return ask(path)
	}, f, t)
	if err != nil {
		return nil, nil, fmt.Errorf("the second judge: %w", err)
	}
	return f, t, nil
}

// judge does the same by the given answers.
func (s *Site) judge(ask func(path string) ([]byte, error), f *Fabric, t Tables) error {
	if err := f.Tables(t); err != nil {
		return err
	}
	v := &visit{Site: s, Fabric: f, tables: t, ask: ask, away: map[string]bool{}}
	if err := v.orders(); err != nil {
		return err
	}
	servers, err := v.servers()
	if err != nil {
		return err
	}
	var status struct {
		Epoch           uint64
		Phases, Servers int
	}
	if err := v.read("/v1/status", &status); err != nil {
		return err
	}
	plan, _, err := v.plan(servers, "/v1/plan", "/v1/plan/phases", false)
	if err != nil {
		return err
	}
	if plan.Epoch != status.Epoch || plan.Phases != status.Phases || plan.Servers != status.Servers {
		return fmt.Errorf("the status has epoch %d, %d phases and %d servers, and the plan of %d, %d and %d", status.Epoch, status.Phases, status.Servers, plan.Epoch, plan.Phases, plan.Servers)
	}
	if _, _, err := v.plan(servers, "/v1/plan", "/v1/plan/phases", true); err != nil && !errors.Is(err, errNone) {
		return err
	}
	return v.jobs()
}

// errNone means that a plan or a job does not exist.
var errNone = errors.New("it does not exist")

// from gets answers from a forsd, and asks again as long as that is busy with others.
func from(ctx context.Context, socket string) func(path string) ([]byte, error) {
	var d net.Dialer
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", socket) }}}
	var ask func(path string) ([]byte, error)
	ask = func(path string) ([]byte, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://forsd"+path, nil)
		if err != nil {
			return nil, err
		}
		answer, err := client.Do(req)
		if err != nil {
			return nil, err
		}
		defer answer.Body.Close()
		var text bytes.Buffer
		text.Grow(int(max(0, answer.ContentLength)) + bytes.MinRead)
		_, err = text.ReadFrom(answer.Body)
		body := text.Bytes()
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", path, err)
		case bytes.Contains(body, []byte(`"code":"busy"`)):
			select {
			case <-ctx.Done():
				return nil, fmt.Errorf("%s: %w: %s", path, context.Cause(ctx), body)
			case <-time.After(100 * time.Millisecond):
				return ask(path)
			}
		case answer.StatusCode == http.StatusNotFound || answer.StatusCode == http.StatusServiceUnavailable:
			return nil, fmt.Errorf("%s: %w: %s", path, errNone, body)
		case answer.StatusCode != http.StatusOK:
			return nil, fmt.Errorf("%s: %s: %s", path, answer.Status, body)
		}
		return body, nil
	}
	return ask
}

// read reads an answer in JSON.
func (v *visit) read(path string, into any) error {
	body, err := v.ask(path)
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	return err
}

// orders keeps drained and isolated parts out of plans.
func (v *visit) orders() error {
	var ordered struct {
		Drains []struct {
			Kind, Name, GUID, State string
			Port                    int
		}
	}
	if err := v.read("/v1/drains", &ordered); err != nil {
		return err
	}
	for _, d := range ordered.Drains {
		if d.State == "scheduled" {
			continue
		}
		v.KeepOut(hex(d.GUID), d.Port)
		if d.Kind == "leaf" {
			v.away[d.Name] = true
		}
	}
	var known struct {
		Cables []struct {
			Leaf struct {
				GUID string
				Port int
			}
			Link string
			Held bool
		}
	}
	err := v.read("/v1/cables", &known)
	for _, c := range known.Cables {
		if c.Held && c.Link != "missing" {
			v.KeepOut(hex(c.Leaf.GUID), c.Leaf.Port)
		}
	}
	return err
}

// servers are the host ports that take part in the fabric's exchange.
func (v *visit) servers() (servers []uint64, err error) {
	var shown struct {
		Hosts []struct {
			GUID, Leaf string
			Server     bool
		}
	}
	if err := v.read("/v1/topology", &shown); err != nil {
		return nil, err
	}
	for _, h := range shown.Hosts {
		at, ok := v.ports[hex(h.GUID)]
		switch {
		case !ok:
			return nil, fmt.Errorf("forsd shows host port %s, and it is not there", h.GUID)
		case v.away[v.leaf(at)]:
		case h.Server:
			servers = append(servers, hex(h.GUID))
		case v.Everyone:
			return nil, fmt.Errorf("host port %s does not take part", h.GUID)
		}
	}
	if v.Everyone && len(shown.Hosts) != len(v.ports) {
		return nil, fmt.Errorf("forsd shows %d host ports, and there are %d", len(shown.Hosts), len(v.ports))
	}
	return servers, nil
}

// leaf names the switch that a host port is at.
func (f *Fabric) leaf(at end) string {
	if i := f.home(at); i >= 0 {
		return f.nodes[i].name
	}
	return ""
}

// plan judges a plan that is published at two paths, and returns the channels that it uses.
func (v *visit) plan(servers []uint64, document, phases string, base bool) (p *Plan, used map[int]bool, err error) {
	if base {
		document, phases = document+"?lids=base", phases+"?format=csv&lids=base"
	} else {
		phases += "?format=csv"
	}
	figures, err := v.ask(document)
	if err != nil {
		return nil, nil, err
	}
	p = &Plan{Base: base}
	if err := json.Unmarshal(figures, p); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", document, err)
	}
	csv, err := v.ask(phases)
	if err != nil {
		return nil, nil, err
	}
	if v.last == nil || !bytes.Equal(csv, v.csv) || !slices.Equal(servers, v.last.servers) { // otherwise it is the plan by lanes
		if p.Rows, err = ReadCSV(csv); err == nil {
			v.last, err = v.examine(v.tables, servers, p)
		}
		v.csv = csv
	}
	if err == nil {
		err = v.last.figures(p)
	}
	if err != nil {
		v.last = nil
		return nil, nil, fmt.Errorf("%s, number %d: %w", document, p.Epoch, err)
	}
	return p, v.last.used(), v.number(document, p.Epoch, csv)
}

var seed = maphash.MakeSeed()

// number checks that a number stands for one plan for ever.
func (s *Site) number(kind string, epoch uint64, csv []byte) error {
	if s.seen == nil {
		s.seen = map[string]uint64{}
	}
	key, sum := fmt.Sprintf("%s %d", kind, epoch), maphash.Bytes(seed, csv)
	if was, ok := s.seen[key]; ok && was != sum {
		return fmt.Errorf("%s: number %d stands for two plans", kind, epoch)
	}
	s.seen[key] = sum
	return nil
}

// jobs judges the plans of all jobs, and that no two with lanes of their own meet. A job may
// end while it is judged.
func (v *visit) jobs() error {
	var all struct{ Jobs []struct{ ID uint64 } }
	if err := v.read("/v1/jobs", &all); err != nil {
		return err
	}
	owner := map[int]uint64{} // [channel] the job with lanes of its own that uses it
	for _, j := range all.Jobs {
		used, err := v.job(fmt.Sprintf("/v1/jobs/%d", j.ID))
		if errors.Is(err, errNone) {
			continue
		}
		if err != nil {
			return err
		}
		for _, c := range slices.Sorted(maps.Keys(used)) {
			if other, ok := owner[c]; ok {
				return fmt.Errorf("jobs %d and %d have lanes of their own, and both use %s", other, j.ID, v.label(c))
			}
			owner[c] = j.ID
		}
	}
	return nil
}

// job judges the plans of a job, and returns the channels that it uses if it has lanes of its
// own.
func (v *visit) job(path string) (used map[int]bool, err error) {
	var j struct {
		Epoch          uint64
		Servers        int
		Hosts, Missing []struct{ GUID string }
		Lanes          []struct{ Leaf string }
		Base           *struct{ Epoch uint64 }
	}
	if err := v.read(path, &j); err != nil {
		return nil, err
	}
	missing := map[uint64]bool{}
	for _, h := range j.Missing {
		if at, ok := v.ports[hex(h.GUID)]; ok && !v.away[v.leaf(at)] {
			return nil, fmt.Errorf("%s: %s is said to be missing, and is there", path, v.name(hex(h.GUID)))
		}
		missing[hex(h.GUID)] = true
	}
	var servers []uint64
	for _, h := range j.Hosts {
		if !missing[hex(h.GUID)] {
			servers = append(servers, hex(h.GUID))
		}
	}
	if len(servers) == 0 {
		return nil, errNone // it keeps its last plan
	}
	p, used, err := v.plan(servers, path+"/plan", path+"/phases", false)
	if err != nil {
		return nil, err
	}
	if p.Epoch != j.Epoch || p.Servers != j.Servers {
		return nil, fmt.Errorf("%s has epoch %d and %d servers, and its plan %d and %d", path, j.Epoch, j.Servers, p.Epoch, p.Servers)
	}
	b, _, err := v.plan(servers, path+"/plan", path+"/phases", true)
	if err == nil && (j.Base == nil && b.Epoch != p.Epoch || j.Base != nil && j.Base.Epoch != b.Epoch) { // the plan itself may be one for base LIDs
		err = fmt.Errorf("%s has base plan %v, and number %d is in force", path, j.Base, b.Epoch)
	}
	if errors.Is(err, errNone) {
		err = nil
	}
	if len(j.Lanes) == 0 {
		used = nil
	}
	return used, err
}
