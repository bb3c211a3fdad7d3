package daemon

import (
	"context"
	"fmt"
	"testing"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/topology"
)

// BenchmarkJob measures the time from the request for a job of all 360 servers of
// FT(2;20,18), over the socket, until the client has checked its table. It runs on the
// healthy fabric and with a dead cable. The removal of the job is not measured.
func BenchmarkJob(b *testing.B) {
	healthy := fabric(20, 18)
	hosts := names(0, 359)
	for _, c := range []struct {
		name   string
		fabric *topology.Fabric
	}{{"healthy", healthy}, {"1F", lacking(healthy, 20, 0, 3)}} {
		b.Run(c.name, func(b *testing.B) {
			d := readable(newDaemon(b))
			d.atRest(b, healthy)
			d.dumpSeen(b.Context(), dump(c.fabric))
			d.drive(b, c.fabric)
			d.serving(b)
			serve, err := listen(d.components)
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(b.Context())
			ended := make(chan error)
			go func() { ended <- serve(ctx) }()
			defer func() {
				cancel()
				if err := <-ended; err != nil {
					b.Error(err)
				}
			}()
			client, err := api.Dial(d.cfg.API.Socket)
			if err != nil {
				b.Fatal(err)
			}
			defer client.Close()
			size := 0
			for b.Loop() {
				job, err := client.CreateJob(ctx, api.JobRequest{Hosts: hosts})
				if err != nil {
					b.Fatal(err)
				}
				table, err := client.WaitJob(ctx, fmt.Sprint(job.ID), 0)
				if err != nil {
					b.Fatal(err)
				}
				size = len(table.Bytes())
				b.StopTimer()
				if _, err := client.RemoveJob(ctx, fmt.Sprint(job.ID)); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(size), "table-bytes")
		})
	}
}
