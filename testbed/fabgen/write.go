package fabgen

import (
	"bytes"
	"fmt"
	"math/bits"
	"slices"
	"strconv"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// SubnetLst prints the fabric as OpenSM writes opensm-subnet.lst. As OpenSM does, it
// orders nodes by the GUID with its bytes reversed, and prints speeds beyond HDR as
// "??". The manager's mark is on the port that it runs at: the first port with a
// cable of node f.SM.
func SubnetLst(f *topology.Fabric) []byte {
	var out bytes.Buffer
	for _, i := range osmOrder(f) {
		for p := range f.Nodes[i].Ports {
			port := &f.Nodes[i].Ports[p]
			if port.Peer == topology.None {
				continue
			}
			lstEnd(&out, f, topology.PortRef{Node: i, Port: uint8(p)}, 6, 16)
			lstEnd(&out, f, topology.PortRef{Node: port.Peer, Port: port.PeerPort}, 8, 16)
			fmt.Fprintf(&out, "PHY=%s LOG=%s SPD=%s\n", lstWidth(port.Rate.Width), lstState[port.State], lstSpeed(port.Rate.Speed))
		}
	}
	return out.Bytes()
}

// osmOrder lists the nodes as OpenSM keeps them: by GUID in network byte order,
// compared as a little-endian machine does.
func osmOrder(f *topology.Fabric) []int32 {
	order := make([]int32, len(f.Nodes))
	for i := range order {
		order[i] = int32(i)
	}
	key := func(i int32) uint64 { return bits.ReverseBytes64(uint64(f.Nodes[i].GUID)) }
	slices.SortFunc(order, func(a, b int32) int {
		if key(a) < key(b) {
			return -1
		}
		return 1
	})
	return order
}

var lstState = [...]string{topology.Down: "DWN", topology.Init: "INI", topology.Armed: "ARM", topology.Active: "ACT"}

func lstWidth(w uint8) string {
	if w == 0 {
		return "??"
	}
	return strconv.Itoa(int(w)) + "x"
}

func lstSpeed(s ib.Speed) string {
	names := map[ib.Speed]string{ib.SDR: "2.5", ib.DDR: "5", ib.QDR: "10", ib.FDR10: "FDR10",
		ib.FDR: "14", ib.EDR: "25", ib.HDR: "50"}
	if name, ok := names[s]; ok {
		return name
	}
	return "??"
}

// lstEnd prints one end of a cable; OpenSM pads the vendor of the near end to
// six digits and that of the far end to eight, and shifts devices by 16 bits.
func lstEnd(out *bytes.Buffer, f *topology.Fabric, r topology.PortRef, vendorDigits, shift int) {
	n := &f.Nodes[r.Node]
	kind := map[topology.Kind]string{topology.Switch: "SW", topology.Adapter: "CA", topology.Router: "Rt"}[n.Kind]
	if n.GUID == f.SM && f.SM != 0 && (n.Kind == topology.Switch || r.Port == firstCable(n)) {
		kind += "-SM"
	}
	own := f.At(owner(f, r))
	fmt.Fprintf(out, "{ %s Ports:%02X SystemGUID:%016x NodeGUID:%016x PortGUID:%016x VenID:%0*X DevID:%04X Rev:%08X {%s} LID:%04X PN:%02X } ",
		kind, len(n.Ports)-1, uint64(n.System), uint64(n.GUID), uint64(own.GUID), vendorDigits, n.Vendor, n.Device<<shift, 0xA1, n.Name, uint16(own.LID), r.Port)
}

// firstCable is a node's first port with a cable, or 0.
func firstCable(n *topology.Node) uint8 {
	for p := range n.Ports {
		if n.Ports[p].Connected() {
			return uint8(p)
		}
	}
	return 0
}

// owner is the port that owns the GUID and LID of port r: on a switch port 0.
func owner(f *topology.Fabric, r topology.PortRef) topology.PortRef {
	if f.Nodes[r.Node].Kind == topology.Switch {
		r.Port = 0
	}
	return r
}

// Ibnetdiscover prints the fabric as ibnetdiscover does without grouping:
// switches, adapters, routers. Within each kind the tool keeps its order of
// discovery, last first; here it is descending GUIDs.
func Ibnetdiscover(f *topology.Fabric) []byte {
	var out bytes.Buffer
	out.WriteString("#\n# Topology file: generated on Thu Jan  1 00:00:00 1970\n#\n")
	if len(f.Nodes) > 0 {
		fmt.Fprintf(&out, "# Initiated from node %016x port %016x\n", uint64(f.Nodes[0].GUID), uint64(f.Nodes[0].GUID)+1)
	}
	for _, kind := range []topology.Kind{topology.Switch, topology.Adapter, topology.Router} {
		for i := len(f.Nodes) - 1; i >= 0; i-- {
			if f.Nodes[i].Kind == kind {
				ndNode(&out, f, int32(i))
			}
		}
	}
	return out.Bytes()
}

func ndID(n *topology.Node) string {
	letter := map[topology.Kind]string{topology.Switch: "S", topology.Adapter: "H", topology.Router: "R"}[n.Kind]
	return fmt.Sprintf("\"%s-%016x\"", letter, uint64(n.GUID))
}

// ndNode prints a node's block.
func ndNode(out *bytes.Buffer, f *topology.Fabric, i int32) {
	n := &f.Nodes[i]
	fmt.Fprintf(out, "\nvendid=0x%x\ndevid=0x%x\n", n.Vendor, n.Device)
	if n.System != 0 {
		fmt.Fprintf(out, "sysimgguid=0x%x\n", uint64(n.System))
	}
	ports := len(n.Ports) - 1
	switch n.Kind {
	case topology.Switch:
		zero := &n.Ports[0]
		fmt.Fprintf(out, "switchguid=0x%x(%x)\nSwitch\t%d %s\t\t# \"%s\" base port 0 lid %d lmc %d\n",
			uint64(n.GUID), uint64(zero.GUID), ports, ndID(n), n.Name, zero.LID, zero.LMC)
	case topology.Adapter:
		fmt.Fprintf(out, "caguid=0x%x\nCa\t%d %s\t\t# \"%s\"\n", uint64(n.GUID), ports, ndID(n), n.Name)
	default:
		fmt.Fprintf(out, "rtguid=0x%x\nRt\t%d %s\t\t# \"%s\"\n", uint64(n.GUID), ports, ndID(n), n.Name)
	}
	for p := range n.Ports {
		if n.Ports[p].Peer != topology.None {
			ndPort(out, f, topology.PortRef{Node: i, Port: uint8(p)})
		}
	}
}

// ndPort prints a port's line, which differs between switches and the others.
func ndPort(out *bytes.Buffer, f *topology.Fabric, r topology.PortRef) {
	n, port := &f.Nodes[r.Node], f.At(r)
	peer := &f.Nodes[port.Peer]
	far := topology.PortRef{Node: port.Peer, Port: port.PeerPort}
	own := f.At(owner(f, far))
	remote := ""
	if peer.Kind != topology.Switch {
		remote = fmt.Sprintf("(%x) ", uint64(own.GUID))
	}
	if n.Kind == topology.Switch {
		fmt.Fprintf(out, "[%d]\t%s[%d]%s\t\t# \"%s\" lid %d %s\n", r.Port, ndID(peer), far.Port, remote, peer.Name, own.LID, ndRate(port.Rate))
		return
	}
	if remote != "" {
		remote = " " + remote
	}
	fmt.Fprintf(out, "[%d](%x) \t%s[%d]%s\t\t# lid %d lmc %d \"%s\" lid %d %s\n", r.Port, uint64(port.GUID), ndID(peer), far.Port, remote,
		port.LID, port.LMC, peer.Name, own.LID, ndRate(port.Rate))
}

func ndRate(r ib.Rate) string {
	width, speed := "??", "???"
	if r.Width != 0 {
		width = strconv.Itoa(int(r.Width)) + "x"
	}
	if r.Speed != ib.UnknownSpeed {
		speed = r.Speed.String()
	}
	return width + speed
}

// GUID2LID prints OpenSM's cache guid2lid of the fabric.
func GUID2LID(f *topology.Fabric) []byte {
	var out bytes.Buffer
	for _, e := range f.EndPorts() {
		if e.LID != 0 {
			fmt.Fprintf(&out, "0x%016x 0x%04x 0x%04x\n\n", uint64(e.GUID), uint16(e.LID), int(e.LID)+1<<e.LMC-1)
		}
	}
	return out.Bytes()
}
