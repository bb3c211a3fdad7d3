package fast

import (
	"os"
	"testing"
	"time"

	"github.com/forsd/forsd/gpu"
)

// The paper's Fig. 10 in small: FAST's plan has the length of the busiest server, and
// everything is sent.
func TestNew(t *testing.T) {
	for _, c := range []gpu.Cluster{{Servers: 2, GPUs: 2}, {Servers: 3, GPUs: 2}, {Servers: 8, GPUs: 8}} {
		traffic, err := gpu.Generate(c, gpu.Zipf, 1<<20, .8, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, balance := range []bool{true, false} {
			p := New(traffic, balance)
			if length := sum(p.Lengths); balance && (length < traffic.Bound() || length > traffic.Bound()+int64(c.Servers)) || length < traffic.Bound() {
				t.Errorf("%+v: length %d, the busiest server has %d", c, length, traffic.Bound())
			}
			if !balance && p.Balance > 0 {
				t.Errorf("%+v: %d bytes are balanced", c, p.Balance)
			}
		}
	}
}

// A plan by hand: 2 servers of 2 GPUs, 1000 bytes from GPU 0 to GPU 2. Half of them are
// given to GPU 1, and half of them come in at GPU 3.
func TestSeconds(t *testing.T) {
	traffic, err := gpu.NewTraffic(gpu.Cluster{Servers: 2, GPUs: 2})
	if err != nil {
		t.Fatal(err)
	}
	traffic.Bytes[2] = 1000
	traffic.Bytes[4*3+2] = 9000 // inside a server
	got := New(traffic, true).Seconds(gpu.Model{B1: 1000, B2: 100, Latency: time.Second})
	if want := 1.5 + 10 + 1.5; got != want {
		t.Errorf("%v s, want %v", got, want)
	}
}

// TestNotSlower: package gpu's plans take no longer than FAST's, by one model, with either
// of FAST's ways; and the plans are carried out. With FORS_LONG=1 up to 128 servers.
func TestNotSlower(t *testing.T) {
	most := 16
	if os.Getenv("FORS_LONG") != "" {
		most = 128
	}
	for _, row := range Rows(most) {
		c, err := row.Compare(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if c.Seconds > c.FAST {
			t.Errorf("%s: %.3f ms, FAST's plan takes %.3f ms", row.Name, 1e3*c.Seconds, 1e3*c.FAST)
		}
		t.Logf("%s: %.3f ms, FAST %.3f ms, %.3f times", row.Name, 1e3*c.Seconds, 1e3*c.FAST, c.FAST/c.Seconds)
		if c.Seconds > c.Sequential {
			t.Errorf("%s: %.3f ms, and %.3f ms without overlap", row.Name, 1e3*c.Seconds, 1e3*c.Sequential)
		}
	}
}
