package gpu_test

import (
	"context"
	"fmt"

	"github.com/forsd/forsd/gpu"
)

// Two servers of two GPUs: GPU 0 has 1000 bytes for GPU 2, and half of them travel over
// the other NICs.
func ExamplePlanner() {
	traffic, err := gpu.NewTraffic(gpu.Cluster{Servers: 2, GPUs: 2})
	if err != nil {
		panic(err)
	}
	traffic.Bytes[0*4+2] = 1000
	var p gpu.Planner
	plan, err := p.Plan(context.Background(), traffic, gpu.Options{Mode: gpu.Bytes})
	if err != nil {
		panic(err)
	}
	if err := gpu.Verify(context.Background(), traffic, plan); err != nil {
		panic(err)
	}
	fmt.Println("length", plan.Length, "of at least", plan.Bound)
	for _, x := range plan.Stages[0].Transfers {
		fmt.Printf("NIC %d sends NIC %d %d bytes\n", x.From, x.To, x.Bytes)
	}
	programs, err := plan.Programs(context.Background())
	if err != nil {
		panic(err)
	}
	fmt.Println("rank 0 first moves", programs[0].Before.Send)
	// Output:
	// length 500 of at least 500
	// NIC 0 sends NIC 2 500 bytes
	// NIC 1 sends NIC 3 500 bytes
	// rank 0 first moves [{-1 {0 0 500} false} {-1 {1 500 500} false}]
}
