// Package replica transfers state between two forsd: whether one leads, and the state that
// the other one copies. It defines the format, asks over HTTP, and answers when there is
// something new.
package replica

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/standby"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// Replica is the state that a leading daemon would find in its state directory after a
// restart, and the fabric.
type Replica struct {
	Tag     string `json:"tag"`               // differs whenever anything else here differs
	Leads   bool   `json:"leads"`             // it leads: its manager is the master
	Missing int    `json:"missing,omitempty"` // how many of the baseline's hosts its manager does not see, if most
	Claim   uint64 `json:"claim,omitempty"`   // of the current takeover, 0 if there is none
	Last    uint64 `json:"last"`              // highest number known to be given to a plan
	Passed  uint64 `json:"passed,omitempty"`  // highest number that a lost plan may have
	Clock   int64  `json:"clock,omitempty"`   // of the host, in milliseconds since 1970

	// The fields below are omitted if the asking forsd has them.
	Whole     bool                   `json:"whole"`
	Baseline  *topology.Baseline     `json:"baseline,omitempty"`
	Fabric    *topology.Fabric       `json:"fabric,omitempty"` // as last seen
	Epoch     *Kept[store.EpochInfo] `json:"epoch,omitempty"`
	BaseLIDs  *Kept[planner.Report]  `json:"base_lids,omitempty"` // the fabric's plan for base LIDs in force; without a table if that is the epoch's
	Jobs      []Kept[store.JobInfo]  `json:"jobs,omitempty"`
	Decisions store.Decisions        `json:"decisions,omitempty"`
}

// Kept is a plan as the store keeps it.
type Kept[T any] struct {
	About T      `json:"about"`
	Table []byte `json:"table"`          // phases.bin
	Base  []byte `json:"base,omitempty"` // base.bin of a job
}

// Word returns the part of the replica that the asking daemon's machine needs.
func (r *Replica) Word() standby.Word {
	w := standby.Word{Tag: r.Tag, Leads: r.Leads, Missing: r.Missing, Claim: r.Claim, Whole: r.Whole, Numbers: standby.Numbers{Last: r.Last, Passed: r.Passed}, Clock: r.Clock}
	if r.Epoch != nil {
		w.Epoch = r.Epoch.About.Epoch
	}
	return w
}

// check rejects answers that a forsd of this version does not give.
func (r *Replica) check() error {
	if r.Tag == "" {
		return errors.New("the answer is not from a forsd of this version")
	}
	highest := r.Last
	if r.Epoch != nil {
		highest = max(highest, r.Epoch.About.Epoch)
	}
	for i := range r.Jobs {
		highest = max(highest, r.Jobs[i].About.ID, r.Jobs[i].About.Epoch, r.Jobs[i].About.BaseEpoch)
	}
	switch {
	case r.Clock > store.HighestNumber:
		return fmt.Errorf("it says that its clock is at %d ms since 1970: no clock is", r.Clock)
	case max(highest, r.Passed) > store.HighestNumber:
		return fmt.Errorf("it says that a plan has the number %d: no forsd gives such numbers", max(highest, r.Passed))
	case r.Whole && highest > r.Last:
		return fmt.Errorf("it has a plan with the number %d, and says that it has given numbers up to %d", highest, r.Last)
	}
	return nil
}

// CheckedFabric returns the replica's fabric after validating it.
func (r *Replica) CheckedFabric() (*topology.Fabric, error) {
	for i := range r.Fabric.Nodes {
		for p := range r.Fabric.Nodes[i].Ports {
			if port := &r.Fabric.Nodes[i].Ports[p]; port.Peer < topology.None {
				return nil, fmt.Errorf("the fabric has a port whose peer is %d", port.Peer)
			}
		}
	}
	return topology.NewFabric(r.Fabric.Nodes, r.Fabric.SM)
}

// path is the URL path of the question.
const path = "/v1/replica"

// Ask asks the daemon of the client.
func Ask(ctx context.Context, c *api.Client, a standby.Ask) (*Replica, error) {
	q := url.Values{"have": {a.Have}, "wait": {strconv.Itoa(int(a.Wait.Seconds()))}}
	if a.Brief {
		q.Set("brief", "1")
	}
	if a.Claim != 0 {
		q.Set("claim", strconv.FormatUint(a.Claim, 10))
	}
	r := &Replica{}
	if err := c.Call(ctx, http.MethodGet, path+"?"+q.Encode(), nil, r); err != nil {
		return r, err
	}
	if err := r.check(); err != nil {
		return r, err
	}
	if !a.Brief && a.Have == "" && !r.Whole {
		return r, errors.New("it was asked for its state, and has not sent it")
	}
	return r, nil
}

// longest limits the wait that a question may ask for.
const longest = time.Minute

// Desk answers the peer from the last snapshot without involving the daemon's loop,
// except when the peer takes over.
type Desk struct {
	// Claimed tells the daemon's machine that the peer takes over, and shows the state
	// after that.
	Claimed func(ctx context.Context, claim uint64) error

	mu    sync.Mutex // guards the fields below
	shown *Snapshot
	news  chan struct{} // closed when another snapshot is shown; nil while no question waits
}

// Show sets the snapshot for answers.
func (d *Desk) Show(n *Snapshot) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n.same(d.shown) {
		return
	}
	d.shown = n
	if d.news != nil {
		close(d.news)
		d.news = nil
	}
}

// Begins reports that the daemon begins to lead or to take over, possibly during an action.
func (d *Desk) Begins(word standby.Word) {
	d.mu.Lock()
	shown := d.shown
	d.mu.Unlock()
	if shown != nil {
		d.Show(shown.beginning(word))
	}
}

// look returns the last snapshot, nil before the first, and a channel that is closed when
// another one is shown.
func (d *Desk) look() (*Snapshot, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.news == nil {
		d.news = make(chan struct{})
	}
	return d.shown, d.news
}

// Answer answers /v1/replica?have=TAG&wait=SECONDS with the state as soon as its tag
// differs from TAG, or when the wait is over. brief=1 asks only whether this daemon
// leads. claim=N means that the asker is taking over.
func (d *Desk) Answer(r *http.Request) (any, error) {
	q, err := question(r)
	if err != nil {
		return nil, err
	}
	if q.Claim != 0 {
		if err := d.Claimed(r.Context(), q.Claim); err != nil {
			return nil, err
		}
	}
	late := time.NewTimer(q.Wait)
	defer late.Stop()
	for {
		now, news := d.look()
		var out *Replica
		if now != nil {
			if out = now.Replica(q); out.Tag != q.Have || q.Wait == 0 {
				return out, nil
			}
		}
		select {
		case <-news:
		case <-late.C:
			if out != nil {
				return out, nil
			}
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
}

// question parses a request.
func question(r *http.Request) (standby.Ask, error) {
	q := standby.Ask{Have: r.FormValue("have"), Brief: r.FormValue("brief") != ""}
	if s := r.FormValue("wait"); s != "" {
		seconds, err := strconv.ParseUint(s, 10, 16)
		if err != nil {
			return q, api.BadRequest("wait=%s is not a number of seconds", s)
		}
		q.Wait = min(time.Duration(seconds)*time.Second, longest)
	}
	if s := r.FormValue("claim"); s != "" {
		claim, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return q, api.BadRequest("claim=%s is not a claim", s)
		}
		q.Claim = claim
	}
	return q, nil
}
