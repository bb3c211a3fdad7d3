package plugin

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// fabricBody is the message fabric. Nodes come in descending order: the protocol
// says nothing of it.
func fabricBody(t testing.TB, generation uint64, f *topology.Fabric) []byte {
	t.Helper()
	var manager ib.GUID
	if i := f.Find(f.SM); i != topology.None {
		ports := f.Nodes[i].Ports
		manager = ports[slices.IndexFunc(ports, func(p topology.Port) bool { return p.GUID != 0 })].GUID
	}
	b := binary.LittleEndian.AppendUint32(words(generation, uint64(manager)), uint32(len(f.Nodes)))
	for i := range slices.Backward(f.Nodes) {
		n := &f.Nodes[i]
		var records []byte
		count := uint16(0)
		for p := range n.Ports {
			port := &n.Ports[p]
			if port.Peer == topology.None && (p > 0 || n.Kind != topology.Switch) {
				continue
			}
			count++
			records = append(records, byte(p), byte(port.State), port.Rate.Width, byte(port.Rate.Speed), port.LMC, port.PeerPort)
			records = binary.LittleEndian.AppendUint16(records, uint16(port.LID))
			peer := ib.GUID(0)
			if port.Peer != topology.None {
				peer = f.Nodes[port.Peer].GUID
			}
			records = append(records, words(uint64(port.GUID), uint64(peer))...)
		}
		b = append(append(b, words(uint64(n.GUID), uint64(n.System))...), byte(n.Kind), byte(len(n.Ports)-1))
		b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint16(b, count), n.Vendor)
		b = appendText(append(binary.LittleEndian.AppendUint16(b, uint16(n.Device)), 0, 0), n.Name)
		b = append(b, records...)
	}
	return b
}

// TestFabric sends random fabrics, with cables pulled, links training and LIDs
// missing, and gets them back.
func TestFabric(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		f := fabgen.Generate(fabgen.Spec{Spines: rapid.IntRange(1, 4).Draw(r, "spines"), Leaves: rapid.IntRange(1, 4).Draw(r, "leaves"),
			Cables: rapid.IntRange(1, 2).Draw(r, "cables"), Hosts: []int{rapid.IntRange(1, 3).Draw(r, "hosts")}})
		fabgen.AssignLIDs(f, uint8(rapid.IntRange(0, 7).Draw(r, "lmc")))
		f.SM = f.Nodes[rapid.IntRange(0, len(f.Nodes)-1).Draw(r, "manager")].GUID
		for i := range f.Nodes {
			n := &f.Nodes[i]
			n.Name = rapid.StringN(0, 20, 64).Draw(r, "name")
			n.Vendor, n.Device = rapid.Uint32().Draw(r, "vendor"), uint32(rapid.Uint16().Draw(r, "device"))
			for p := 1; p < len(n.Ports); p++ {
				port := &n.Ports[p]
				switch {
				case n.Kind == topology.Switch && rapid.IntRange(0, 9).Draw(r, "pull") == 0 && port.Peer != topology.None && f.Nodes[port.Peer].Kind == topology.Switch:
					f.Nodes[port.Peer].Ports[port.PeerPort].Rate = ib.Rate{}
					f.Disconnect(topology.PortRef{Node: int32(i), Port: uint8(p)})
					port.Rate = ib.Rate{}
				case port.Peer != topology.None:
					port.State = topology.PortState(rapid.IntRange(0, 3).Draw(r, "state"))
					port.Rate.Speed = ib.Speed(rapid.IntRange(0, 9).Draw(r, "speed"))
				}
			}
		}
		f.SetRoles(topology.Roles{})
		got, err := readFabric(fabricBody(t, 7, f))
		if err != nil || got.Err != nil || got.Generation != 7 {
			r.Fatal(got, err)
		}
		if d := cmp.Diff(f, got.Fabric); d != "" {
			r.Error(d)
		}
	})
}

// TestBadFabrics changes a good message in one place.
func TestBadFabrics(t *testing.T) {
	f := fabric(t, 0)
	good := fabricBody(t, 1, f)
	last := 20 // the first node, which is the last one of f: a spine
	name := int(binary.LittleEndian.Uint16(good[last+28:]))
	port0 := last + 30 + name
	port1 := port0 + 24
	for _, c := range []struct {
		says   string
		at     int
		change []byte
		held   bool // whether the message can be read
	}{
		{"length", 16, []byte{0xFF, 0xFF, 0xFF, 0xFF}, false},
		{"is of kind 0", last + 16, []byte{0}, false},
		{"is of kind 4", last + 16, []byte{4}, false},
		{"has 0 ports", last + 17, []byte{0}, false},
		{"has 255 ports", last + 17, []byte{255}, false},
		{"is not on node", port0, []byte{99}, false},
		{"comes after port", port1, []byte{0}, false},
		{"has state 4", port1 + 1, []byte{4}, false},
		{"speed 10", port1 + 3, []byte{10}, false},
		{"LMC 8", port0 + 4, []byte{8}, false},
		{"no GUID", last, make([]byte, 8), false},
		{"which is not there", port1 + 16, []byte{1, 2, 3, 4, 5, 6, 7, 8}, true},
		{"lead", port1 + 5, []byte{77}, true},
		{"does not lead back", port1 + 5, []byte{2}, true},
		{"unicast range", port0 + 6, []byte{0xFF, 0xFF}, true},
	} {
		data := slices.Clone(good)
		copy(data[c.at:], c.change)
		sight, err := readFabric(data)
		if c.held != (err == nil) || sight.Fabric != nil {
			t.Errorf("%s: %+v, %v", c.says, sight, err)
		}
		if both := errors.Join(err, sight.Err); both == nil || !strings.Contains(both.Error(), c.says) {
			t.Errorf("%v does not say %q", both, c.says)
		}
	}
}

// TestSettled brings links up that are training at both ends, and no others.
func TestSettled(t *testing.T) {
	f := fabric(t, 0)
	if AfterSweep(f) != f {
		t.Error("a fabric that has settled is copied")
	}
	leaf := f.Find(fabgen.LeafGUID)
	spine, other := f.Nodes[leaf].Ports[3], f.Nodes[leaf].Ports[4]
	f.Nodes[leaf].Ports[3].State = topology.Init
	f.Nodes[spine.Peer].Ports[spine.PeerPort].State = topology.Armed
	f.Nodes[leaf].Ports[4].State = topology.Init
	f.Nodes[other.Peer].Ports[other.PeerPort].State = topology.Down
	before := f.Hash()
	g := AfterSweep(f)
	if f.Hash() != before {
		t.Error("the fabric itself is changed")
	}
	f.Nodes[leaf].Ports[3].State = topology.Active
	f.Nodes[spine.Peer].Ports[spine.PeerPort].State = topology.Active
	if d := cmp.Diff(f, g); d != "" {
		t.Error(d)
	}
}

// sink is a connection that takes everything.
type sink struct{ net.Conn }

func (sink) Write(b []byte) (int, error)      { return len(b), nil }
func (sink) SetWriteDeadline(time.Time) error { return nil }
func (sink) Close() error                     { return nil }

// FuzzMessages reads whatever comes after the greeting: it neither fails nor lets
// a fabric through that does not hold together.
func FuzzMessages(f *testing.F) {
	body := fabricBody(f, 1, fabric(f, 5))
	f.Add(slices.Concat(message(kindSweep, nil), message(kindFabric, body), message(kindDiscovered, words(1)), message(kindRequest, requestBody(1, 1, 0, 0)),
		message(kindOutcome, append(words(9), 3, 3, 0, 'w', 'h', 'y')), message(kindRouted, []byte{2, 1, 0, 0}), message(kindUp, words(1))))
	f.Add(slices.Concat(message(kindTrap, make([]byte, 16)), message(kindState, []byte{2})))
	f.Add(message(kindHello, helloBody(version, Master)))
	f.Fuzz(func(t *testing.T, data []byte) {
		if first, err := readFrame(bytes.NewReader(data)); err == nil {
			_, _, _ = readHello(first)
		}
		e := session{server: &Server{config: Config{Event: func(Event) {}, Tables: func(context.Context, Request) (*lft.Tables, error) {
			return nil, errors.New("none")
		}}}, conn: sink{}}
		r := bytes.NewReader(data)
		for {
			next, err := readFrame(r)
			if err != nil || e.handle(t.Context(), next) != nil {
				break
			}
			if e.sight.Fabric == nil {
				continue
			}
			if err := e.sight.Fabric.Validate(); err != nil {
				t.Error(err)
			}
			again, err := readFabric(fabricBody(t, e.sight.Generation, e.sight.Fabric))
			if err != nil || again.Err != nil || again.Fabric.Hash() != e.sight.Fabric.Hash() {
				t.Errorf("sent again, the fabric reads otherwise: %v, %v", err, again.Err)
			}
		}
		e.answers.Wait()
	})
}

// FuzzFabric reads whatever comes as a fabric: what it lets through holds
// together, and reads the same when it is sent again.
func FuzzFabric(f *testing.F) {
	f.Add(fabricBody(f, 1, fabric(f, 5)))
	f.Add(fabricBody(f, 1, fabgen.Generate(fabgen.Spec{Spines: 1, Leaves: 1, Hosts: []int{1}})))
	f.Add(append(words(1, 0), 0, 0, 0, 0))
	f.Fuzz(func(t *testing.T, body []byte) {
		sight, err := readFabric(body)
		if err != nil || sight.Err != nil {
			if sight.Fabric != nil {
				t.Error("there is a fabric with an error")
			}
			return
		}
		if err := sight.Fabric.Validate(); err != nil {
			t.Error(err)
		}
		again, err := readFabric(fabricBody(t, sight.Generation, sight.Fabric))
		if err != nil || again.Err != nil || again.Fabric.Hash() != sight.Fabric.Hash() {
			t.Errorf("sent again, the fabric reads otherwise: %v, %v", err, again.Err)
		}
	})
}
