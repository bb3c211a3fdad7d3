package mscclpp_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/forsd/forsd/gpu"
	"github.com/forsd/forsd/gpu/mscclpp"
)

// draws is how many random inputs a test tries.
func draws(few, many int) int {
	if os.Getenv("FORS_LONG") != "" {
		return many
	}
	return few
}

// anyPlan draws an exchange in multiples of 16 bytes for each GPU of a server, and a plan.
func anyPlan(t *testing.T, rng *rand.Rand, servers, gpus int) (*gpu.Traffic, *gpu.Plan) {
	t.Helper()
	c := gpu.Cluster{Servers: 1 + rng.IntN(servers), GPUs: 1 + rng.IntN(gpus)}
	traffic, err := gpu.NewTraffic(c)
	if err != nil {
		t.Fatal(err)
	}
	unit := int64(16 * c.GPUs)
	density, limit := rng.IntN(101), []int64{2, 50, 500}[rng.IntN(3)]
	for at := range traffic.Bytes {
		if rng.IntN(100) < density {
			traffic.Bytes[at] = unit * rng.Int64N(limit+1)
		}
	}
	o := gpu.Options{Mode: []gpu.Mode{gpu.Bytes, gpu.Bytes, gpu.Auto, gpu.Rails}[rng.IntN(4)], Grain: unit, Model: gpu.DefaultModel}
	if o.Mode != gpu.Rails {
		o.Grain *= []int64{1, 1, 8, 64}[rng.IntN(4)]
	}
	plan, err := new(gpu.Planner).Plan(t.Context(), traffic, o)
	if err != nil {
		t.Fatal(err)
	}
	return traffic, plan
}

// exchange fills the inputs and returns the expected outputs.
func (x *executor) exchange(t *gpu.Traffic, salt int) [][]byte {
	want := make([][]byte, t.Ranks())
	for source := range t.Ranks() {
		clear(x.buffers[source]["s"])
		clear(x.buffers[source]["o"])
		at := 0
		for destination := range t.Ranks() {
			message := x.buffers[source]["i"][at:][:t.Bytes[source*t.Ranks()+destination]]
			for i := range message {
				message[i] = byte(1 + (salt+source*31+destination*17+i/16)%255)
			}
			at += len(message)
			want[destination] = append(want[destination], message...)
		}
	}
	return want
}

// carry executes a plan twice, as a program that keeps it would, and checks each byte.
func (x *executor) carry(t *gpu.Traffic, rng *rand.Rand) error {
	for salt := range 2 {
		want := x.exchange(t, salt)
		if err := x.run(rng); err != nil {
			return err
		}
		for r := range want {
			if got := x.buffers[r]["o"]; !bytes.Equal(got[:len(want[r])], want[r]) {
				return fmt.Errorf("rank %d has other bytes than were sent to it", r)
			}
		}
	}
	return nil
}

// Plans carry out exchanges, regardless of how thread blocks are delayed.
func TestEncode(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	refused := 0
	for n := range draws(150, 1000) {
		traffic, plan := anyPlan(t, rng, 6, 8)
		data, chunk, err := mscclpp.Encode(t.Context(), plan)
		if err != nil && strings.Contains(err.Error(), "does not fit into") && len(plan.Stages) > 30 {
			refused++
			continue
		}
		if err != nil {
			t.Fatalf("%d: %v", n, err)
		}
		x, err := load(data, plan.GPUs, chunk)
		if err != nil {
			t.Fatalf("%d: %v", n, err)
		}
		if err := x.carry(traffic, rng); err != nil {
			t.Fatalf("%d, %d×%d in %d stages: %v", n, plan.Servers, plan.GPUs, len(plan.Stages), err)
		}
	}
	if refused > draws(150, 1000)/50 {
		t.Errorf("%d plans do not fit", refused)
	}
}

// The tests' executor rejects a plan from which any operation is missing, and a plan with
// another order of bytes.
func TestExecutorFinds(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	c := gpu.Cluster{Servers: 3, GPUs: 2}
	traffic, err := gpu.Generate(c, gpu.Zipf, 1<<10, .9, 1)
	if err != nil {
		t.Fatal(err)
	}
	for at := range traffic.Bytes {
		traffic.Bytes[at] = (traffic.Bytes[at] + 31) / 32 * 32
	}
	plan, err := new(gpu.Planner).Plan(t.Context(), traffic, gpu.Options{Mode: gpu.Bytes, Grain: 32})
	if err != nil {
		t.Fatal(err)
	}
	data, chunk, err := mscclpp.Encode(t.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	var whole planJSON
	if err := json.Unmarshal(data, &whole); err != nil {
		t.Fatal(err)
	}
	tried := 0
	for r := range whole.GPUs {
		for b := range whole.GPUs[r].Blocks {
			for i, o := range whole.GPUs[r].Blocks[b].Ops {
				tried++
				x, err := load(data, plan.GPUs, chunk)
				if err != nil {
					t.Fatal(err)
				}
				ops := &x.plan.GPUs[r].Blocks[b].Ops
				if *ops = append((*ops)[:i:i], (*ops)[i+1:]...); o.Name == "nop" && (unsynchronized(*ops) >= 0 || i == 0 || (*ops)[i-1].Name == "nop" || i == len(*ops) || (*ops)[i].Name == "nop") {
					continue // found, or one of two in a row
				}
				if err := x.carry(traffic, rng); err == nil {
					t.Errorf("rank %d, thread block %d works without operation %d, %s", r, b, i, o.Name)
				}
			}
		}
	}
	if tried < 100 {
		t.Errorf("%d operations were left out", tried)
	}
}

func TestRefuses(t *testing.T) {
	c := gpu.Cluster{Servers: 2, GPUs: 1}
	for want, bytes := range map[string]int64{
		"this plan cuts messages at multiples of 12 bytes, and MSCCL++ copies 16 at a time: make messages multiples of 16 bytes": 24,
		"rank 0 has a buffer of 4294967296 bytes: MSCCL++ takes 4294967295 at most":                                              1 << 32,
	} {
		traffic, err := gpu.NewTraffic(c)
		if err != nil {
			t.Fatal(err)
		}
		traffic.Bytes[1] = bytes
		plan, err := new(gpu.Planner).Plan(t.Context(), traffic, gpu.Options{Mode: gpu.Bytes, MaxStage: bytes / 3 * 2})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := mscclpp.Encode(t.Context(), plan); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: %v", bytes, err)
		}
	}
}
