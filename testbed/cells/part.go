package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"

	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/sim"
)

// step gives the rows of a plan the steps that the shim gives each job, by its part.c.
func (s *site) step(ctx context.Context, program string, jobs []int) ([]sim.Row, error) {
	var rows []sim.Row
	for job := range 2 {
		var members []int
		of := make([]int, len(s.hosts)) // [host] number among the members, −1
		for h := range of {
			if of[h] = -1; jobs[h] == job {
				of[h] = len(members)
				members = append(members, h)
			}
		}
		if len(members) < 2 {
			continue
		}
		list, err := s.stepPart(ctx, program, members, of)
		if err != nil {
			return nil, err
		}
		rows = append(rows, list...)
	}
	return rows, nil
}

// stepPart is step for some hosts.
func (s *site) stepPart(ctx context.Context, program string, members, of []int) ([]sim.Row, error) {
	var in bytes.Buffer
	var phases []int // in which the members meet
	for ph := range s.view.Phases() {
		for _, h := range members {
			if to := s.view.Row(h).At(ph).SendTo; to != phasetable.Idle && of[to] >= 0 {
				phases = append(phases, ph)
				break
			}
		}
	}
	fmt.Fprintln(&in, len(members), s.view.Lanes(), len(phases))
	for _, h := range members {
		fmt.Fprintln(&in, s.view.Server(h).Leaf)
	}
	lids := make([]map[int]sim.Row, len(members))
	for g := range lids {
		lids[g] = map[int]sim.Row{}
	}
	for _, ph := range phases {
		for g, h := range members {
			x := s.view.Row(h).At(ph)
			to := -1
			if x.SendTo != phasetable.Idle && of[x.SendTo] >= 0 {
				to = of[x.SendTo]
				lids[g][to] = sim.Row{Src: s.hosts[h], Dst: s.hosts[x.SendTo], DLID: x.DLID}
			}
			fmt.Fprintln(&in, to, x.Lane)
		}
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Stdin = &in
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("part: %w", err)
	}
	lines := bytes.NewReader(out)
	var steps int
	if _, err := fmt.Fscan(lines, &steps); err != nil {
		return nil, fmt.Errorf("part: %w", err)
	}
	var rows []sim.Row
	for range len(members) * (len(members) - 1) {
		var g, to, step int
		if _, err := fmt.Fscan(lines, &g, &to, &step); err != nil {
			return rows, nil // unreachable pairs
		}
		r := lids[g][to]
		r.Phase = int32(step)
		rows = append(rows, r)
	}
	return rows, nil
}
