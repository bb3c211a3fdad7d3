package daemon

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/worker"
	"github.com/forsd/forsd/testbed/fabgen"
)

// TestPoolsApart uses up all turns of some clients. The requests of others are planned
// nevertheless, and orders always.
func TestPoolsApart(t *testing.T) {
	full := worker.NewPool(worker.Limits{Time: time.Minute, Memory: 1 << 30})
	for name, c := range map[string]struct {
		fill  func(*worker.Pools)
		works map[string]bool
	}{
		"viewers take all":   {func(p *worker.Pools) { p.Others = full }, map[string]bool{"viewer": false, "operator": true, "order": true}},
		"operators take all": {func(p *worker.Pools) { p.Operators = full }, map[string]bool{"viewer": true, "operator": false, "order": true}},
	} {
		s := running(t, fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4}), func(d *Daemon) { c.fill(&d.backend.Workers) })
		as := func(role api.Role) *api.Client {
			secret, _, err := s.callers.access.Tokens.Create("t-"+role.String(), role, time.Hour, "test", time.Now())
			ok(t, err)
			client, err := api.DialAs(s.cfg.API.Socket, api.Credentials{Token: secret})
			ok(t, err)
			t.Cleanup(client.Close)
			return client
		}
		viewer, operator := as(api.Viewer), as(api.Operator)
		hosts := []string{s.state.Now().Latest.Tree.Hosts[0].GUID.String(), s.state.Now().Latest.Tree.Hosts[5].GUID.String()}
		spine := s.state.Now().Latest.Tree.Spines[1].Name
		for _, ask := range []struct {
			what, of string
			do       func(context.Context) error
		}{
			{"a viewer's what-if", "viewer", func(ctx context.Context) error {
				_, err := viewer.WhatIf(ctx, api.WhatIf{Fail: []string{spine}})
				return err
			}},
			{"an operator's", "operator", func(ctx context.Context) error {
				_, err := operator.WhatIf(ctx, api.WhatIf{Fail: []string{spine}})
				return err
			}},
			{"a dry run of a job", "operator", func(ctx context.Context) error {
				_, err := operator.CreateJob(ctx, api.JobRequest{Hosts: hosts, DryRun: true})
				return err
			}},
			{"a dry run of a drain", "operator", func(ctx context.Context) error {
				_, err := operator.Drain(ctx, api.DrainRequest{Parts: []string{spine}, DryRun: true})
				return err
			}},
			{"a job", "order", func(ctx context.Context) error {
				_, err := operator.CreateJob(ctx, api.JobRequest{Hosts: hosts})
				return err
			}},
			{"a drain", "order", func(ctx context.Context) error {
				_, err := operator.Drain(ctx, api.DrainRequest{Parts: []string{spine}})
				return err
			}},
		} {
			err := ask.do(t.Context())
			if e := (*api.Error)(nil); (err == nil) != c.works[ask.of] || err != nil && (!errors.As(err, &e) || e.Code != api.CodeBusy) {
				t.Errorf("%s: %s: %v, want it to work: %t", name, ask.what, err, c.works[ask.of])
			}
		}
	}
}
