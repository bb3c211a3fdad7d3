package topology

import (
	"regexp"
	"slices"
	"strings"
)

// Role is the purpose of a node, which decides whether it takes part: see TakesPart.
type Role uint8

// The roles. An adapter without a description is UnknownRole until it has one.
const (
	UnknownRole Role = iota
	ComputeNode
	AggregationNode // of SHARP, inside a switch
	GatewayNode
	StorageNode
	ManagementNode
	RouterNode
	SwitchNode
)

var roleNames = [...]string{"unknown", "compute", "aggregation", "gateway", "storage", "management", "router", "switch"}

// String returns the role's name in settings and JSON.
func (r Role) String() string {
	if int(r) < len(roleNames) {
		return roleNames[r]
	}
	return roleNames[UnknownRole]
}

// MarshalText writes the role's name.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText parses the output of MarshalText; other text is UnknownRole.
func (r *Role) UnmarshalText(text []byte) error {
	*r = UnknownRole
	for i, name := range roleNames {
		if name == string(text) {
			*r = Role(i)
		}
	}
	return nil
}

// TakesPart reports whether hosts of the role are servers of the exchange. Those of an
// unknown role are: a description may arrive late, and a plan would leave the host out
// until then.
func (r Role) TakesPart() bool { return r == ComputeNode || r == UnknownRole }

// Roles are patterns of node descriptions by which an operator gives adapters a role; nil
// matches nothing. They add to the roles recognized automatically.
type Roles struct {
	Aggregation *regexp.Regexp
	Gateway     *regexp.Regexp
	Storage     *regexp.Regexp
	Management  *regexp.Regexp
}

// The descriptions of aggregation nodes in NVIDIA's switches.
const (
	mellanoxVendor    = 0x2c9
	aggregationDevice = 0xcf09
)

var (
	aggregationName = regexp.MustCompile(`(?i)\baggregation[ _-]?node\b`)
	sharpName       = regexp.MustCompile(`\bSHARP\b|\bSharp(AN|[ _-])`)
	hostName        = regexp.MustCompile(`(?i)\b(hca-\d|mlx\d+_\d|ib[ps]?\d)`)
)

// SetRoles gives every node its role: by kind, by device, by description, and by the
// operator's patterns. An adapter of one port that shares the system image GUID of
// the switch that it is plugged into is a part of that switch.
func (f *Fabric) SetRoles(by Roles) {
	for i := range f.Nodes {
		f.Nodes[i].Role = f.role(&f.Nodes[i], &by)
	}
}

// WithRoles returns the fabric with such roles; it shares the ports.
func (f *Fabric) WithRoles(by Roles) *Fabric {
	g := &Fabric{Nodes: slices.Clone(f.Nodes), SM: f.SM}
	g.SetRoles(by)
	return g
}

func (f *Fabric) role(n *Node, by *Roles) Role {
	switch n.Kind {
	case Switch:
		return SwitchNode
	case Router:
		return RouterNode
	}
	if f.inSwitch(n) {
		return AggregationNode
	}
	for _, rule := range []struct {
		pattern *regexp.Regexp
		role    Role
	}{{by.Aggregation, AggregationNode}, {by.Management, ManagementNode}, {by.Storage, StorageNode}, {by.Gateway, GatewayNode}} {
		if rule.pattern != nil && rule.pattern.MatchString(n.Name) {
			return rule.role
		}
	}
	if strings.TrimSpace(n.Name) == "" {
		return UnknownRole
	}
	return ComputeNode
}

// inSwitch reports whether an adapter is an aggregation node by its own description.
func (f *Fabric) inSwitch(n *Node) bool {
	if n.Vendor == mellanoxVendor && n.Device == aggregationDevice {
		return true
	}
	if len(n.Ports) != 2 {
		return false
	}
	if (aggregationName.MatchString(n.Name) || sharpName.MatchString(n.Name)) && !hostName.MatchString(n.Name) {
		return true
	}
	port := &n.Ports[1]
	return n.System != 0 && port.Connected() && f.Nodes[port.Peer].Kind == Switch && f.Nodes[port.Peer].System == n.System
}
