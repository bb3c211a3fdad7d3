package topology

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/sealed"
)

// BaselineVersion is the version of the baseline file that this package reads
// and writes.
const BaselineVersion = 1

// Baseline is the fabric as accepted: which switches are spines and leaves, which lane each
// cable is, and which index α each host port has. Lane numbers, K and α survive the
// disappearance of the parts they name, so the loss of one cable or host moves nothing
// else. Lanes are numbered spine by spine, cable by cable.
type Baseline struct {
	Version int             `json:"version"`
	Rate    string          `json:"rate"` // what a leaf–spine cable is expected to run at, "0x?" when unknown
	Spines  []BaselineSpine `json:"spines"`
	Leaves  []BaselineLeaf  `json:"leaves"`
	// Pods is the baseline of a fat tree of three levels, otherwise nil. If it is set, all
	// other fields are empty, and the file is that of Pods.
	Pods *PodBaseline `json:"-"`
}

// BaselineSpine is a spine with its lanes.
type BaselineSpine struct {
	GUID   ib.GUID `json:"guid"`
	Name   string  `json:"name"`
	Cables int     `json:"cables"` // lanes of this spine: its parallel cables to a leaf
}

// BaselineLeaf is a leaf with its cables and host ports.
type BaselineLeaf struct {
	GUID    ib.GUID  `json:"guid"`
	Name    string   `json:"name"`
	Uplinks []Uplink `json:"uplinks"`              // [lane]; zero ports if the leaf never had the cable
	Slots   []Slot   `json:"slots"`                // [α]; a zero GUID is a free index
	First   int      `json:"first_lane,omitempty"` // of the base LID of index 0; see turn
}

// Uplink is where the cable of a lane is plugged in.
type Uplink struct {
	LeafPort  uint8 `json:"leaf_port"`
	SpinePort uint8 `json:"spine_port"`
}

// Slot is a host port's place on a leaf.
type Slot struct {
	GUID     ib.GUID `json:"port_guid"`
	Name     string  `json:"name"`
	LeafPort uint8   `json:"leaf_port"`
	Place    int     `json:"place,omitempty"` // 1 + that on the circle of a PodBaseline, 0 if there is none
}

// Lanes is K, the number of lanes.
func (b *Baseline) Lanes() int {
	k := 0
	for i := range b.Spines {
		k += b.Spines[i].Cables
	}
	return k
}

// LIDs returns how many LIDs of a host pinned plans can use: one for each lane, and a
// separate base LID if a leaf has more hosts than there are lanes.
func (b *Baseline) LIDs() int {
	lanes := b.Lanes()
	for i := range b.Leaves {
		if len(b.Leaves[i].Slots) > lanes {
			return lanes + 1
		}
	}
	return lanes
}

// Encode returns the content of the baseline's file.
func (b *Baseline) Encode() []byte { return encodeBaseline(b) }

// ReadBaseline parses the output of Encode, sealed or not, and validates it.
func ReadBaseline(data []byte) (*Baseline, error) {
	if HasPods(data) {
		pods, err := ReadPodBaseline(data)
		if err != nil {
			return nil, err
		}
		return &Baseline{Pods: pods}, nil
	}
	b := new(Baseline)
	if err := readBaseline(data, (*plainBaseline)(b)); err != nil {
		return nil, err
	}
	return b, nil
}

// encodeBaseline prints a baseline of two levels or of three.
func encodeBaseline(b any) []byte {
	out, err := json.MarshalIndent(b, "", " ")
	if err != nil {
		panic(err) // the types hold nothing that cannot be printed
	}
	return append(out, '\n')
}

// readBaseline parses the output of encodeBaseline, sealed or not, and validates it.
func readBaseline(data []byte, into interface{ validate() error }) error {
	err := sealed.Decode(data, into)
	if err == nil {
		err = into.validate()
	}
	if err != nil {
		return fmt.Errorf("read baseline: %w", err)
	}
	return nil
}

// meanings maps the GUIDs of a baseline to their uses: each has exactly one.
type meanings map[ib.GUID]string

func (m meanings) add(g ib.GUID, format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	if old, dup := m[g]; dup {
		return fmt.Errorf("GUID %s stands for both %s and %s", g, old, what)
	}
	m[g] = what
	return nil
}

func (m meanings) addLeaf(i int, l *BaselineLeaf) error {
	err := m.add(l.GUID, "leaf %d", i)
	for a, s := range l.Slots {
		if err == nil && s.GUID != 0 {
			err = m.add(s.GUID, "index %d of leaf %d", a, i)
		}
	}
	return err
}

func (b *Baseline) validate() error {
	if b.Version != BaselineVersion {
		return fmt.Errorf("version %d is not %d: write it anew with forsctl baseline accept", b.Version, BaselineVersion)
	}
	seen := meanings{}
	for i, s := range b.Spines {
		if s.Cables < 1 || s.Cables > 255 {
			return fmt.Errorf("spine %s has %d cables to a leaf: 1 to 255 are possible", s.GUID, s.Cables)
		}
		if err := seen.add(s.GUID, "spine %d", i); err != nil {
			return err
		}
	}
	lanes := b.Lanes()
	for i, l := range b.Leaves {
		if len(l.Uplinks) != lanes {
			return fmt.Errorf("leaf %s has %d uplinks for %d lanes", l.GUID, len(l.Uplinks), lanes)
		}
		if l.First < 0 || l.First > 0 && l.First >= lanes {
			return fmt.Errorf("leaf %s begins at lane %d of %d", l.GUID, l.First, lanes)
		}
		if err := seen.addLeaf(i, &l); err != nil {
			return err
		}
	}
	return nil
}

// clone returns a deep copy.
func (b *Baseline) clone() *Baseline {
	c := &Baseline{Version: b.Version, Rate: b.Rate, Spines: append([]BaselineSpine(nil), b.Spines...),
		Leaves: append([]BaselineLeaf(nil), b.Leaves...)}
	for i := range c.Leaves {
		c.Leaves[i].Uplinks = append([]Uplink(nil), c.Leaves[i].Uplinks...)
		c.Leaves[i].Slots = append([]Slot(nil), c.Leaves[i].Slots...)
	}
	return c
}

// NewBaseline recognizes the two-level fat tree in f and numbers it from scratch: spines
// and leaves by GUID, the cables of a leaf–spine pair by leaf port, host ports by leaf
// port. Parts outside the tree are left out. It returns *NotFatTree if the fabric is not
// such a tree, and *NotYet if it is not brought up.
func NewBaseline(f *Fabric) (*Baseline, error) {
	if err := f.BroughtUp(); err != nil {
		return nil, err
	}
	c, err := findCore(f)
	if err != nil {
		return nil, err
	}
	spineAt := make(map[int32]int)
	leaves := slices.Concat(c.leaves, c.bare)
	slices.Sort(leaves)
	b := &Baseline{Version: BaselineVersion}
	for _, i := range c.spines {
		spineAt[i] = len(b.Spines)
		b.Spines = append(b.Spines, BaselineSpine{GUID: f.Nodes[i].GUID, Name: f.Nodes[i].Name})
	}
	for _, i := range leaves {
		b.Leaves = append(b.Leaves, BaselineLeaf{GUID: f.Nodes[i].GUID, Name: f.Nodes[i].Name})
	}
	b.Rate = commonRate(f, leaves, spineAt).String()
	cables := make([][][]Uplink, len(leaves)) // [leaf][spine] in leaf-port order
	for l, node := range leaves {
		cables[l] = make([][]Uplink, len(b.Spines))
		for p := range f.Nodes[node].Ports {
			port := &f.Nodes[node].Ports[p]
			if s, ok := spineAt[port.Peer]; ok && port.Up() {
				cables[l][s] = append(cables[l][s], Uplink{uint8(p), port.PeerPort})
				b.Spines[s].Cables = max(b.Spines[s].Cables, len(cables[l][s]))
			}
		}
	}
	for l := range b.Leaves {
		for s := range b.Spines {
			up := make([]Uplink, b.Spines[s].Cables)
			copy(up, cables[l][s])
			b.Leaves[l].Uplinks = append(b.Leaves[l].Uplinks, up...)
		}
	}
	return fit(f, b, nil).Baseline, nil
}

// commonRate returns the rate that most leaf–spine cables run at, the faster one when two
// are equally common; unknown rates do not vote.
func commonRate(f *Fabric, leaves []int32, spineAt map[int32]int) ib.Rate {
	votes := map[ib.Rate]int{}
	for _, i := range leaves {
		for p := range f.Nodes[i].Ports {
			port := &f.Nodes[i].Ports[p]
			if _, spine := spineAt[port.Peer]; spine && port.Up() && port.Rate.Known() {
				votes[port.Rate]++
			}
		}
	}
	rates := make([]ib.Rate, 0, len(votes))
	for r := range votes {
		rates = append(rates, r)
	}
	sort.Slice(rates, func(a, b int) bool {
		x, y := rates[a], rates[b]
		if votes[x] != votes[y] {
			return votes[x] > votes[y]
		}
		if x.Gbps() != y.Gbps() {
			return x.Gbps() > y.Gbps()
		}
		return x.Width > y.Width
	})
	if len(rates) == 0 {
		return ib.Rate{}
	}
	return rates[0]
}
