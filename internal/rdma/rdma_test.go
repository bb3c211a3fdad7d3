package rdma

import (
	"errors"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/forsd/forsd/ib"
)

// tree is a /sys with an adapter of two ports, of which the second has no cable.
func tree() fstest.MapFS {
	sys := fstest.MapFS{}
	for name, text := range map[string]string{
		"class/infiniband/mlx5_0/node_guid": "0002:c903:0030:4bd0\n",
		"class/infiniband/mlx5_0/fw_ver":    "20.35.1012\n",
		"class/infiniband_mad/abi_version":  "5\n",
		"class/infiniband_mad/umad0/ibdev":  "mlx5_0\n",
		"class/infiniband_mad/umad0/port":   "1\n",
		"class/infiniband_mad/issm0/ibdev":  "mlx5_0\n",
		"class/infiniband_mad/issm0/port":   "1\n",
		"class/infiniband_mad/umad1/ibdev":  "mlx5_0\n",
		"class/infiniband_mad/umad1/port":   "2\n",
		"class/infiniband_mad/issm1/ibdev":  "mlx5_0\n",
		"class/infiniband_mad/issm1/port":   "2\n",
	} {
		sys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	port := func(dir, gid, lid, lmc, smLID, state, phys, rate string) {
		for name, text := range map[string]string{
			"gids/0": gid, "lid": lid, "lid_mask_count": lmc, "sm_lid": smLID,
			"state": state, "phys_state": phys, "rate": rate, "link_layer": "InfiniBand",
		} {
			sys["class/infiniband/mlx5_0/ports/"+dir+"/"+name] = &fstest.MapFile{Data: []byte(text + "\n")}
		}
	}
	port("1", "fe80:0000:0000:0000:0002:c903:0030:4bd1", "0x0120", "5", "0x9", "4: ACTIVE", "5: LinkUp", "200 Gb/sec (4X HDR)")
	port("2", "fe80:0000:0000:0000:0002:c903:0030:4bd2", "0x0", "0", "0x0", "1: DOWN", "2: Polling", "10 Gb/sec (4X SDR)")
	return sys
}

func scannerOf(sys fstest.MapFS) scanner {
	return scanner{
		devices: func() []string { return []string{"mlx5_0"} },
		ports:   func(string) []string { return []string{"2", "1"} },
		link: func(string) (*netlink.RdmaLink, error) {
			return &netlink.RdmaLink{Attrs: netlink.RdmaLinkAttrs{FirmwareVersion: "20.99.0"}}, nil
		},
		sys: sys,
	}
}

func TestScan(t *testing.T) {
	s := scannerOf(tree())
	got, err := s.scan()
	if err != nil {
		t.Fatal(err)
	}
	want := []Device{{
		Name: "mlx5_0", NodeGUID: 0x0002c90300304bd0, Firmware: "20.99.0",
		Ports: []Port{
			{Number: 1, GUID: 0x0002c90300304bd1, LID: 0x120, LMC: 5, SMLID: 9, State: "ACTIVE", PhysState: "LinkUp",
				Rate: "200 Gb/sec (4X HDR)", LinkLayer: "InfiniBand", Umad: "/dev/infiniband/umad0", ISSM: "/dev/infiniband/issm0"},
			{Number: 2, GUID: 0x0002c90300304bd2, State: "DOWN", PhysState: "Polling",
				Rate: "10 Gb/sec (4X SDR)", LinkLayer: "InfiniBand", Umad: "/dev/infiniband/umad1", ISSM: "/dev/infiniband/issm1"},
		},
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestNetlinkMayBeMissing(t *testing.T) {
	s := scannerOf(tree())
	denied := errors.New("protocol not supported")
	s.link = func(string) (*netlink.RdmaLink, error) { return nil, denied }
	got, err := s.scan()
	if err != nil {
		t.Fatal(err)
	}
	if got[0].Firmware != "20.35.1012" || !errors.Is(got[0].NetlinkErr, denied) || len(got[0].Ports) != 2 {
		t.Errorf("%+v", got[0])
	}
}

func TestDamagedAttributesAreReported(t *testing.T) {
	sys := tree()
	delete(sys, "class/infiniband/mlx5_0/ports/1/state")
	sys["class/infiniband/mlx5_0/ports/2/lid"].Data = []byte("0x12345\n")
	sys["class/infiniband/mlx5_0/node_guid"].Data = []byte("none\n")
	s := scannerOf(sys)
	got, err := s.scan()
	if err == nil || len(got) != 1 || got[0].Ports[0].LID != 0x120 {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, want := range []string{
		"read /sys/class/infiniband/mlx5_0/ports/1/state: ",
		`read /sys/class/infiniband/mlx5_0/ports/2/lid: "0x12345" is not a number of 16 bits`,
		"read /sys/class/infiniband/mlx5_0/node_guid: ",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q:\n%v", want, err)
		}
	}
}

func TestPortOfEthernetHasNoUmad(t *testing.T) {
	sys := tree()
	for name := range sys {
		if strings.HasPrefix(name, madDir) {
			delete(sys, name)
		}
	}
	delete(sys, "class/infiniband/mlx5_0/ports/1/gids/0")
	s := scannerOf(sys)
	got, err := s.scan()
	if err != nil {
		t.Fatal(err)
	}
	if p := got[0].Ports[0]; p.Umad != "" || p.ISSM != "" || p.GUID != ib.GUID(0) {
		t.Errorf("%+v", p)
	}
}

func TestMachineItself(t *testing.T) {
	entries, err := os.ReadDir("/sys/class/infiniband")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	got, err := Devices()
	if err != nil || len(got) != len(entries) {
		t.Errorf("%d devices for %d entries, %v", len(got), len(entries), err)
	}
}

// TestNetlinkOfUnknownDevice checks that a device unknown to netlink is an error. In a
// container without privileges the kernel may refuse RDMA netlink, with the same result.
func TestNetlinkOfUnknownDevice(t *testing.T) {
	if link, err := netlink.RdmaLinkByName("no-such-device"); err == nil {
		t.Errorf("found %+v", link)
	}
}
