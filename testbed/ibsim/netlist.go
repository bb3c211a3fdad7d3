package ibsim

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// The sizes of ibsim's buffers, in bytes: a client names its node in 31, a node
// description is 63 long.
const (
	maxNodeID      = 31
	maxDescription = 63
)

// keywords open a node in a netlist and set its GUID, per kind.
var keywords = map[topology.Kind]struct{ node, guid string }{
	topology.Switch:  {"Switch", "switchguid"},
	topology.Adapter: {"Hca", "caguid"},
	topology.Router:  {"Rt", "rtguid"},
}

// WriteNetlist writes f as a netlist of ibsim. GUIDs, descriptions and cables are
// those of f. LIDs are not: the subnet manager assigns them. A node is named by its
// description if ibsim accepts it as an identifier, and by its GUID otherwise. Rates
// over HDR, which ibsim 0.10 does not know, become HDR; unknown ones become ibsim's
// own default, 4xSDR. A fabric that ibsim cannot simulate is an error: it derives the
// GUID of port p of an adapter as node GUID + p, and limits descriptions to 63 bytes.
func WriteNetlist(w io.Writer, f *topology.Fabric) error {
	ids := nodeIDs(f)
	out := bufio.NewWriter(w)
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if err := simulable(n); err != nil {
			return fmt.Errorf("write netlist: %w", err)
		}
		if n.Vendor != 0 || n.Device != 0 {
			fmt.Fprintf(out, "vendid=0x%x\ndevid=0x%x\n", n.Vendor, n.Device)
		}
		if n.System != 0 && n.System != n.GUID {
			fmt.Fprintf(out, "sysimgguid=%s\n", n.System)
		}
		word := keywords[n.Kind]
		fmt.Fprintf(out, "%s=%s\n%s %d \"%s\"", word.guid, n.GUID, word.node, len(n.Ports)-1, ids[i])
		if n.Name != "" && n.Name != ids[i] {
			fmt.Fprintf(out, "\t# \"%s\"", n.Name)
		}
		_, _ = out.WriteString("\n")
		for p := range n.Ports {
			if port := &n.Ports[p]; port.Connected() {
				rate := cableRate(f, topology.PortRef{Node: int32(i), Port: uint8(p)})
				fmt.Fprintf(out, "[%d]\t\"%s\"[%d]%s\n", p, ids[port.Peer], port.PeerPort, rateComment(rate))
			}
		}
		_, _ = out.WriteString("\n")
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write netlist: %w", err)
	}
	return nil
}

// Simulable is a fabric as ibsim can simulate it: it gives port p of an adapter the GUID of the
// node plus p, and knows no rates over HDR.
func Simulable(f *topology.Fabric) *topology.Fabric {
	g := f.Clone()
	for i := range g.Nodes {
		n := &g.Nodes[i]
		for p := range n.Ports {
			switch port := &n.Ports[p]; {
			case n.Kind != topology.Switch && p > 0:
				port.GUID = n.GUID + ib.GUID(p)
			case n.Kind == topology.Switch && p == 0:
				port.GUID = n.GUID
			}
			n.Ports[p].Rate.Speed = min(n.Ports[p].Rate.Speed, ib.HDR)
		}
	}
	return g
}

// simulable returns why ibsim cannot simulate a node, or nil.
func simulable(n *topology.Node) error {
	if _, ok := keywords[n.Kind]; !ok {
		return fmt.Errorf("%s is an %s, which ibsim does not know", n, n.Kind)
	}
	if len(n.Ports) < 2 {
		return fmt.Errorf("%s has no ports: ibsim wants at least one", n)
	}
	if len(n.Name) > maxDescription || strings.ContainsAny(n.Name, "\"\n\r\x00") {
		return fmt.Errorf("%s has the description %q: ibsim takes at most %d bytes, no quotes and no line ends", n.GUID, n.Name, maxDescription)
	}
	for p := range n.Ports {
		want := n.GUID
		if n.Kind != topology.Switch {
			want += ib.GUID(p)
		}
		if has := n.Ports[p].GUID; has != 0 && has != want {
			return fmt.Errorf("%s port %d has GUID %s: ibsim makes it %s", n, p, has, want)
		}
	}
	return nil
}

// nodeIDs returns the identifier of every node: its description if ibsim can
// use it as one and it is the first to have it, otherwise its GUID.
func nodeIDs(f *topology.Fabric) []string {
	ids := make([]string, len(f.Nodes))
	taken := make(map[string]bool, len(f.Nodes))
	for i := range f.Nodes {
		taken[f.Nodes[i].GUID.String()] = true
	}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if n.Name == "" || len(n.Name) > maxNodeID || strings.ContainsAny(n.Name, "\"#@\n\r\x00") || taken[n.Name] {
			ids[i] = n.GUID.String()
			continue
		}
		ids[i] = n.Name
		taken[n.Name] = true
	}
	return ids
}

// cableRate is the rate of the cable at r, the same seen from both ends: ibsim
// refuses to start if the ends have no width or speed in common.
func cableRate(f *topology.Fabric, r topology.PortRef) ib.Rate {
	port := f.At(r)
	if port.Peer < r.Node || port.Peer == r.Node && port.PeerPort < r.Port {
		return f.Nodes[port.Peer].Ports[port.PeerPort].Rate
	}
	return port.Rate
}

// rateComment gives ibsim the rate of a cable in the form of ibnetdiscover.
func rateComment(r ib.Rate) string {
	if !r.Known() {
		return ""
	}
	r.Speed = min(r.Speed, ib.HDR)
	return "\t# lid 0 " + r.String()
}
