package fabgen

import "github.com/forsd/forsd/topology"

// Damaged is what is left of a fat tree of two levels when cables are dead, each by the
// number of its leaf and its lane.
func Damaged(s Spec, dead ...[2]int) (*topology.FatTree, error) {
	fabric := Generate(s)
	base, err := topology.NewBaseline(fabric)
	if err != nil {
		return nil, err
	}
	for _, c := range dead {
		fabric.Disconnect(topology.PortRef{Node: fabric.Find(LeafGUID + topology.GUID(c[0])), Port: uint8(s.Spines + 1 + c[1])})
	}
	return topology.Fit(fabric, base, nil)
}
