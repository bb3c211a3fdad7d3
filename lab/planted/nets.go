package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/forsd/forsd/testbed/built"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/judge"
	"github.com/forsd/forsd/topology"
)

// net is a check that should catch faults. ask returns its report of one, "" if it has
// not caught it.
type net struct {
	name string
	ask  func(ctx context.Context, p *planted) (said string, err error)
}

var nets = []net{{"tests", tests}, {"verifier", verifier}, {"judge", second}, {"mutation", mutation}, {"soak", soak}}

// tests asks the tests of the packages concerned. They leave no files behind.
func tests(ctx context.Context, p *planted) (string, error) {
	for _, pkg := range p.tests {
		args := []string{"test", "-overlay", p.overlay, "-short", "-failfast", "-timeout", "10m", pkg}
		deps, _, err := p.command(ctx, "go", "list", "-deps", "-test", pkg)
		if err != nil {
			return "", err
		}
		if strings.Contains(deps, "pgregory.net/rapid") {
			args = append(args, "-rapid.nofailfile")
		}
		text, failed, err := p.command(ctx, "go", args...)
		if strings.Contains(text, "[build failed]") || strings.Contains(text, "[setup failed]") {
			err = fmt.Errorf("the fault does not build: %s", text)
		}
		if err != nil {
			return "", err
		}
		if failed {
			return firstLine(regexp.MustCompile(`--- FAIL: (\S+)|panic: .*|FAIL.*`).FindString(text)), nil
		}
	}
	return "", nil
}

// mutation asks lab/mutate whether it makes mistakes in the lines of the fault, and the
// package's own tests find all of them.
func mutation(ctx context.Context, p *planted) (string, error) {
	e := p.edits[0]
	text, failed, err := p.command(ctx, "go", "run", "./lab/mutate", "-min", "100", "-p", "1", "-files", "^"+regexp.QuoteMeta(path.Base(e.file))+"$",
		"-lines", fmt.Sprintf("%d-%d", p.first, p.first+p.lines-1), "./"+path.Dir(e.file))
	made := regexp.MustCompile(`\d+ of [1-9]\d* mistakes found`).FindString(text)
	if failed || err != nil {
		return "", err
	}
	return made, nil
}

// plans are the files of forsctl plan for one fabric.
type plans struct {
	dir               string
	refused           string // forsctl's message if it made none
	whole, discovered []byte
	used              []uint64 // servers
}

// The fabrics that forsctl plans for.
var fabrics = []struct {
	fabric func() *topology.Fabric
	fail   []string
	slow   string // a switch's port whose cable is slow
}{
	{func() *topology.Fabric { return fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4, LMC: 2}) }, nil, ""},
	{func() *topology.Fabric { return fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 5, LMC: 2}) }, []string{"Leaf001/6", "Leaf003/5"}, "Leaf002/7"},
	{func() *topology.Fabric {
		return fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4, Hosts: []int{4, 3}})
	}, []string{"Leaf000/8"}, ""},
	{func() *topology.Fabric { return fabgen.GenerateTree(fabgen.KAry(4)) }, []string{"Leaf001/3"}, "Leaf004/3"},
	{func() *topology.Fabric {
		return fabgen.GenerateTree(fabgen.TreeSpec{Pods: 3, Leaves: 2, Mids: 2, Tops: 2, Hosts: 2, LMC: 2})
	}, nil, ""},
}

// made lets a forsctl with the fault plan for the fabrics.
func (p *planted) made(ctx context.Context) ([]plans, error) {
	if p.plans != nil {
		return p.plans, nil
	}
	forsctl, err := p.build(ctx, "cmd/forsctl")
	if err != nil {
		return nil, err
	}
	for i, x := range fabrics {
		dir := filepath.Join(p.dir, fmt.Sprint("fabric", i))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		f := x.fabric()
		made := plans{dir: dir, whole: fabgen.Ibnetdiscover(f)}
		whole, baseline := filepath.Join(dir, "whole.txt"), filepath.Join(dir, "baseline.json")
		hurt := filepath.Join(dir, "hurt.txt")
		if x.slow != "" {
			slow(f, x.slow)
		}
		for _, part := range x.fail {
			if _, err := f.Fail(part); err != nil {
				return nil, err
			}
		}
		for i := range f.Nodes {
			if n := &f.Nodes[i]; n.Kind == topology.Adapter {
				made.used = append(made.used, uint64(n.Ports[1].GUID))
			}
		}
		made.discovered = fabgen.Ibnetdiscover(f)
		if err := os.WriteFile(whole, made.whole, 0o644); err != nil {
			return nil, err
		}
		if err := os.WriteFile(hurt, made.discovered, 0o644); err != nil {
			return nil, err
		}
		for _, args := range [][]string{{"plan", "--topology", whole, "--out", dir, "--write-baseline", baseline}, {"plan", "--topology", hurt, "--baseline", baseline, "--out", dir}} {
			text, failed, err := p.command(ctx, forsctl, args...)
			if err != nil {
				return nil, err
			}
			if failed {
				made.refused = text
				break
			}
		}
		p.plans = append(p.plans, made)
	}
	return p.plans, nil
}

// slow makes the cable at a port, such as Leaf002/7, run at one lane.
func slow(f *topology.Fabric, at string) {
	name, port, _ := strings.Cut(at, "/")
	n, err := strconv.Atoi(port)
	if err != nil {
		panic(err) // the ports are those of the faults
	}
	for i := range f.Nodes {
		if f.Nodes[i].Name == name {
			here := f.At(topology.PortRef{Node: int32(i), Port: uint8(n)})
			here.Rate.Width, f.At(topology.PortRef{Node: here.Peer, Port: here.PeerPort}).Rate.Width = 1, 1
		}
	}
}

// verifier asks whether forsctl refuses a plan of its own.
func verifier(ctx context.Context, p *planted) (string, error) {
	all, err := p.made(ctx)
	for _, x := range all {
		if x.refused != "" {
			return firstLine(x.refused), err
		}
		data, err := os.ReadFile(filepath.Join(x.dir, "plan.json"))
		if err != nil {
			return "", err
		}
		if strings.Contains(string(data), "engine-fallback") {
			return "a plan of another engine took the place of one that was refused", nil
		}
	}
	return "", err
}

// second asks the judge about the plans that forsctl did not refuse.
func second(ctx context.Context, p *planted) (string, error) {
	all, err := p.made(ctx)
	if err != nil {
		return "", err
	}
	for _, x := range all {
		if x.refused != "" {
			continue
		}
		if err := x.judge(ctx); err != nil {
			return firstLine(err.Error()), nil
		}
	}
	return "", nil
}

// judge judges the files of a plan.
func (x *plans) judge(ctx context.Context) error {
	whole, err := judge.ReadFabric(x.whole)
	if err != nil {
		return err
	}
	f, err := judge.ReadFabric(x.discovered)
	if err != nil {
		return err
	}
	f.As(whole)
	dump, err := os.ReadFile(filepath.Join(x.dir, "lfts.dump"))
	if err != nil {
		return err
	}
	t, err := judge.ReadTables(dump)
	if err == nil {
		err = f.Tables(t)
	}
	if err == nil {
		err = new(judge.Site).Ibdmchk(ctx, f, t, 0)
	}
	if err != nil {
		return err
	}
	figures, err := os.ReadFile(filepath.Join(x.dir, "plan.json"))
	if err != nil {
		return err
	}
	var both struct {
		Servers, Lanes int
		Base           map[string]any
	}
	if err := json.Unmarshal(figures, &both); err != nil {
		return err
	}
	for _, base := range []bool{false, true} {
		csv, err := os.ReadFile(filepath.Join(x.dir, map[bool]string{false: "phases.csv", true: "base.csv"}[base]))
		if base && both.Base == nil {
			continue
		}
		if err != nil {
			return err
		}
		if base {
			both.Base["servers"], both.Base["lanes"] = both.Servers, both.Lanes
			if figures, err = json.Marshal(both.Base); err != nil {
				return err
			}
		}
		plan, err := judge.ReadPlan(figures, csv)
		if err != nil {
			return err
		}
		plan.Base = base
		if _, err := f.Plan(t, x.used, plan); err != nil {
			return err
		}
	}
	return nil
}

// soak runs the soak test with the fault in forsd and in the test bench.
func soak(ctx context.Context, p *planted) (string, error) {
	forsd, err := p.build(ctx, "cmd/forsd")
	if err != nil {
		return "", err
	}
	program, err := p.build(ctx, "testbed/soak")
	if err != nil {
		return "", err
	}
	if err := built.Make(ctx, "opensm/plugin", p.dir); err != nil {
		return "", err
	}
	text, failed, err := p.command(ctx, program, "-seed", fmt.Sprint(p.seed), "-events", fmt.Sprint(p.events), "-mode", "plugin", "-fabric", "4x4", "-without", "clock",
		"-forsd", forsd, "-plugin", filepath.Join(p.dir, "libforsosm.so"), "-log", filepath.Join(p.dir, "soak.log"))
	if failed {
		return firstLine(text), err
	}
	return "", err
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line[:min(len(line), 300)]
}
