package opensm

import (
	"bytes"
	"os"

	"github.com/google/renameio/v2"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// WriteRoot keeps the file that names the switch from which OpenSM's engine updn orders the
// others. It is the one at which the subnet manager is, since it is
// there whenever the manager sweeps. From a single switch updn finds a way between any two,
// and from a leaf all shortest ways between leaves; from the spines, which it takes by
// itself, none from a spine to a leaf whose cable is dead. Where the manager's place is not
// known, the switch is one of those with hosts.
func WriteRoot(path string, f *topology.Fabric) error {
	var root ib.GUID
	for i := range f.Nodes {
		n := &f.Nodes[i]
		for p := range n.Ports {
			if n.Kind == topology.Switch || !n.Ports[p].Up() || f.Nodes[n.Ports[p].Peer].Kind != topology.Switch {
				continue
			}
			if root == 0 || n.GUID == f.SM {
				root = f.Nodes[n.Ports[p].Peer].GUID
			}
		}
	}
	text := []byte(root.String() + "\n")
	if old, err := os.ReadFile(path); root == 0 || err == nil && bytes.Equal(old, text) {
		return nil
	}
	return renameio.WriteFile(path, text, tableMode, renameio.IgnoreUmask())
}
