package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/rdma"
	"github.com/forsd/forsd/internal/rights"
)

func TestCheckDevices(t *testing.T) {
	active := rdma.Port{Number: 1, LID: 7, State: "ACTIVE", PhysState: "LinkUp", Rate: "200 Gb/sec (4X HDR)", LinkLayer: "InfiniBand"}
	down := rdma.Port{Number: 2, State: "DOWN", PhysState: "Polling", LinkLayer: "InfiniBand", Umad: "umad1", ISSM: "issm1"}
	ethernet := rdma.Port{Number: 1, State: "ACTIVE", LinkLayer: "Ethernet"}
	gone := active
	gone.Umad = "umad-that-is-not-there"
	for _, c := range []struct {
		name    string
		devices []rdma.Device
		err     error
		want    []finding
	}{
		{"none", nil, nil, []finding{{"rdma", warn, "no RDMA devices on this machine"}}},
		{"what was not read", nil, errors.New("mlx5_0: state\nmlx5_1: state"), []finding{{"rdma", warn, "mlx5_0: state; mlx5_1: state"}, {"rdma", warn, "no RDMA devices"}}},
		{"down", []rdma.Device{{Name: "mlx5_0", Ports: []rdma.Port{down}}}, nil,
			[]finding{{"rdma", warn, "mlx5_0 port 2 (InfiniBand, firmware none) is DOWN, Polling, , LID 0, umad node umad1, issm node issm1: check its cable"}, {"umad", fail, "no InfiniBand port"}}},
		{"without umad", []rdma.Device{{Name: "mlx5_0", Firmware: "20.1", Ports: []rdma.Port{active}}}, nil,
			[]finding{{"rdma", warn, "umad node none, issm node none: run modprobe ib_umad"}, {"umad", fail, "no InfiniBand port"}}},
		{"umad node missing", []rdma.Device{{Name: "mlx5_0", Ports: []rdma.Port{gone}}}, nil,
			[]finding{{"rdma", warn, "there is no /dev/infiniband/umad-that-is-not-there: run udevadm trigger -s infiniband_mad"}, {"umad", fail, "no InfiniBand port"}}},
		{"Ethernet", []rdma.Device{{Name: "mlx5_2", Ports: []rdma.Port{ethernet}}}, nil,
			[]finding{{"umad", fail, "no InfiniBand port is active and can be used (1 Ethernet port does not count)"}}},
	} {
		d := doctor{config: config.Default(), user: &rights.ID{Name: "forsd", UID: 4711}}
		d.checkDevices(c.devices, c.err)
		if len(d.Checks) != len(c.want) {
			t.Errorf("%s: %+v", c.name, d.Checks)
			continue
		}
		for i, w := range c.want {
			if got := d.Checks[i]; got.Check != w.Check || got.Grade != w.Grade || !strings.Contains(got.Text, w.Text) {
				t.Errorf("%s: %+v, want %+v", c.name, got, w)
			}
		}
	}
}
