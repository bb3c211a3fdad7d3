package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/forsd/forsd/internal/report"
	"github.com/forsd/forsd/testbed/e2e"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/judge"
	"github.com/forsd/forsd/testbed/rehearsal"
)

// runPods carries out events on the k-ary tree of three levels: a rehearsal on it.
func runPods(ctx context.Context, o options, k int) (f *figures, err error) {
	dir, err := os.MkdirTemp("", "forsd-soak-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if o.Forsd == "" {
		if o.Forsd, err = e2e.Build(ctx, dir); err != nil {
			return nil, err
		}
	}
	log, err := os.Create(o.Log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	fmt.Fprintln(log, o.head())
	f = &figures{options: o, kinds: map[string]int{}, began: time.Now()}
	defer func() { f.print(log, "# ") }()
	spec, judged := fabgen.KAry(k), 0
	spec.LMC = uint8(o.Seed % 3)
	var broken error
	err = rehearsal.Run(ctx, rehearsal.Options{Fabric: fabgen.GenerateTree(spec), LMC: spec.LMC, Seed: o.Seed, Events: o.Events, Forsd: o.Forsd, Plugin: o.Plugin,
		Played: func(p report.Played) {
			e := event{Change: p.Change, Where: p.Where, With: p.With}
			fmt.Fprintf(log, "%s # %.3f s, %d plans\n", e, p.RestSeconds, p.Plans)
			f.add(e, time.Duration(p.PlanSeconds*float64(time.Second)), p.Plans)
			if p.Violation != "" {
				broken = fmt.Errorf("event %d, %s: %s; the log is %s", p.Number, e, p.Violation, o.Log)
			}
		},
		Judged: func(ctx context.Context, by *judge.Site, fabric *judge.Fabric, t judge.Tables) error {
			judged++
			return by.Ibdmchk(ctx, fabric, t, judged%(1<<spec.LMC))
		}}, &report.Rehearsal{})
	return f, errors.Join(err, broken)
}
