package tiers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/liquid"
)

// The limits of POST /v1/liquid: a network of some hundred nodes with a route for
// each pair, and an answer that a client can take in.
const (
	liquidBody      = 64 << 20
	liquidTransfers = 1 << 18
	liquidDuration  = 1 << 12
	liquidPlaces    = 1 << 26          // links times steps
	liquidTime      = 10 * time.Second // where the request does not say
	liquidMost      = 54 * time.Second // what it may say: a request has a minute in all
)

// liquidRequest is the body of POST /v1/liquid. Its fields are the flags of forsctl
// liquid schedule. Without a network it is about forsd's own fabric, on the tables
// that were read back last.
type liquidRequest struct {
	Network    json.RawMessage `json:"network"`
	Allocation []int           `json:"allocation"`
	Hosts      []string        `json:"hosts"`
	Pairs      [][2]nodeName   `json:"pairs"`
	liquid.Options
	Time    string `json:"time"` // such as "5s"
	Compare bool   `json:"compare"`
}

// nodeName is the number of a node, or the name or GUID of a host.
type nodeName string

// UnmarshalJSON takes a number or a string.
func (n *nodeName) UnmarshalJSON(data []byte) error {
	var number int
	if err := json.Unmarshal(data, &number); err == nil {
		*n = nodeName(strconv.Itoa(number))
		return nil
	}
	var name string
	if err := json.Unmarshal(data, &name); err != nil {
		return fmt.Errorf("pairs: %.40s: want a number, a name or a GUID", data)
	}
	*n = nodeName(name)
	return nil
}

// fabricForLiquid is the fabric, whose tables say where its transfers go.
func fabricForLiquid(routes Routes, _ []byte) (g ground) {
	g.Fabric, _, g.Tables = routes()
	return g
}

// planLiquid answers POST /v1/liquid, as forsplan liquid schedule --json does. The
// schedule is verified before it is answered with, on a fabric by walking every
// transfer through its tables.
func (g *ground) planLiquid(ctx context.Context, q *liquidRequest) (any, error) {
	limit := liquidTime
	if q.Time != "" {
		var err error
		if limit, err = time.ParseDuration(q.Time); err != nil || limit <= 0 || limit > liquidMost {
			return nil, fmt.Errorf("time %.40q: want a time such as \"5s\", at most %v", q.Time, liquidMost)
		}
	}
	if q.Nodes < 0 || q.Moves < 0 {
		return nil, errors.New("search_nodes and moves: want 1 or more, or 0 for what is usual")
	}
	traffic, routes, err := g.liquidTraffic(q)
	if err != nil {
		return nil, err
	}
	if traffic.Len() > liquidTransfers || traffic.Duration() > liquidDuration || traffic.Links()*traffic.Duration() > liquidPlaces {
		return nil, fmt.Errorf("%d transfers, %d on one link: this takes %d and %d at most, and forsctl more",
			traffic.Len(), traffic.Duration(), liquidTransfers, liquidDuration)
	}
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	result, err := liquid.Make(within, traffic, q.Options)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	report := liquid.NewReport(traffic, result)
	if q.Compare {
		if report.Compare, err = liquid.Others(ctx, traffic, q.Seed); err != nil {
			return nil, err
		}
	}
	if routes == nil {
		return report, nil
	}
	report.AddRoutes(routes)
	table, err := routes.Table(result.Schedule)
	if err == nil {
		err = routes.Check(table)
	}
	if err != nil {
		return nil, api.Errorf(http.StatusInternalServerError, api.CodeInternal, "the schedule fails its check on the tables, which is a fault of forsd: %v", err)
	}
	return report, nil
}

// liquidTraffic reads what a request wants to be scheduled; routes are nil on a
// network.
func (g *ground) liquidTraffic(q *liquidRequest) (*liquid.Traffic, *liquid.Routes, error) {
	words := make([][2]string, len(q.Pairs))
	for i, p := range q.Pairs {
		words[i] = [2]string{string(p[0]), string(p[1])}
	}
	if q.Network == nil {
		return g.fabricTraffic(q, words)
	}
	if q.Hosts != nil {
		return nil, nil, errors.New("hosts goes without network: allocation chooses nodes of a network")
	}
	n, err := liquid.ParseNetwork(q.Network, "of the request")
	if err != nil {
		return nil, nil, err
	}
	if q.Pairs != nil {
		if q.Allocation != nil {
			return nil, nil, errors.New("pairs and allocation are both given: one of them says who sends")
		}
		pairs, err := n.Pairs(words)
		if err != nil {
			return nil, nil, err
		}
		t, err := n.Exchange(pairs)
		return t, nil, err
	}
	if q.Allocation == nil {
		q.Allocation = n.Capacity()
	}
	t, err := n.AllocatedAllToAll(q.Allocation)
	return t, nil, err
}

// fabricTraffic is the traffic of a request about forsd's own fabric.
func (g *ground) fabricTraffic(q *liquidRequest, words [][2]string) (*liquid.Traffic, *liquid.Routes, error) {
	if q.Allocation != nil {
		return nil, nil, errors.New("allocation goes with network: hosts chooses hosts of the fabric")
	}
	f, tables := g.Fabric, g.Tables
	if tables == nil {
		return nil, nil, api.Errorf(http.StatusNotFound, api.CodeNotFound, "no tables have been read back yet: give a network, or ask later")
	}
	hosts := f.ConnectedHosts()
	var err error
	if q.Hosts != nil {
		if hosts, err = liquid.NewDirectory(f, hosts).Only(q.Hosts); err != nil {
			return nil, nil, fmt.Errorf("hosts: %w", err)
		}
	}
	var pairs []liquid.Pair
	if q.Pairs != nil {
		if pairs, err = liquid.NewDirectory(f, hosts).Pairs(words); err != nil {
			return nil, nil, err
		}
	}
	routes, err := liquid.Trace(f, tables, hosts, pairs)
	if err != nil {
		return nil, nil, err
	}
	return routes.Traffic, routes, nil
}
