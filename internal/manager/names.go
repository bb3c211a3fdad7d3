package manager

import (
	"cmp"
	"os"

	"github.com/forsd/forsd/topology"
)

// defaultNodeNames is the path of the node-name map for OpenSM and the diagnostic tools of some
// distributions.
const defaultNodeNames = "/etc/opensm/ib-node-name-map"

// mostNames is the maximum size of a node-name map.
const mostNames = 16 << 20

// NodeNames returns the node-name map named in OpenSM's settings, or the one at the default
// path, or nil. It is read each time, because it is small and may change.
func (m *Manager) NodeNames() topology.NodeNames {
	path := cmp.Or(m.known().settings.NodeNames, defaultNodeNames)
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || info.Size() > mostNames {
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil // names are optional; GUIDs suffice
	}
	return topology.ReadNodeNames(data)
}
