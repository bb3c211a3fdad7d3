package topology

import (
	"encoding/json"
	"fmt"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/sealed"
)

// PodBaseline is a fat tree of three levels as accepted. Numbers survive the disappearance
// of the parts they name, as in Baseline.
type PodBaseline struct {
	Version int                 `json:"version"`
	Levels  int                 `json:"levels"` // 3
	Rate    string              `json:"rate"`   // of the cables between switches, "0x?" when unknown
	Pods    int                 `json:"pods"`
	MidOf   []int               `json:"planes"` // [plane] the index of its mids within their pods
	Lanes   []BaselineLane      `json:"lanes"`  // those of a plane in a row
	Tops    []BaselineTop       `json:"tops"`
	Mids    []BaselineMid       `json:"mids"` // [pod·mids of a pod + index]
	Leaves  []BaselineLeafInPod `json:"leaves"`
	// Places is the length of the circle on which the leaves are lined up, 0 if they are not, and
	// Rounds how often lanes take turns on it; 0 with full rounds, see line.
	Places int `json:"places,omitempty"`
	Rounds int `json:"rounds,omitempty"`
}

// BaselineLane is a way through the top of the tree.
type BaselineLane struct {
	Plane int `json:"plane"`
	Top   int `json:"top"`
	Cable int `json:"cable"` // its number among the cables of the plane's mids to the top
}

// BaselineTop is a top.
type BaselineTop struct {
	GUID ib.GUID `json:"guid"`
	Name string  `json:"name"`
}

// BaselineMid is a mid with its cables upwards; a zero GUID stands for one that the pod
// never had.
type BaselineMid struct {
	GUID    ib.GUID  `json:"guid"`
	Name    string   `json:"name"`
	Uplinks []Uplink `json:"uplinks"` // [lane of its planes, in a row]; zero ports where there never was a cable
}

// BaselineLeafInPod is a leaf with its pod; its uplinks are by plane.
type BaselineLeafInPod struct {
	Pod int `json:"pod"`
	BaselineLeaf
}

// Encode returns the content of the baseline's file.
func (b *PodBaseline) Encode() []byte { return encodeBaseline(b) }

// HasPods reports whether the text of a baseline is that of a fat tree of three levels.
func HasPods(data []byte) bool {
	if data, err := sealed.Open(data); err == nil {
		var b struct {
			Levels int `json:"levels"`
		}
		return json.Unmarshal(data, &b) == nil && b.Levels == 3
	}
	return false
}

// ReadPodBaseline parses the output of Encode, sealed or not, and validates it.
func ReadPodBaseline(data []byte) (*PodBaseline, error) {
	b := new(PodBaseline)
	if err := readBaseline(data, b); err != nil {
		return nil, err
	}
	return b, nil
}

func (b *PodBaseline) validate() error {
	if b.Version != BaselineVersion || b.Levels != 3 {
		return fmt.Errorf("version %d of %d levels is not %d of 3: write it anew with forsctl baseline accept", b.Version, b.Levels, BaselineVersion)
	}
	if b.Pods < 1 || len(b.MidOf) == 0 || len(b.Mids)%b.Pods != 0 {
		return fmt.Errorf("%d pods, %d planes and %d mids do not go together", b.Pods, len(b.MidOf), len(b.Mids))
	}
	plane, mid := 0, 0
	for i, l := range b.Lanes {
		if l.Plane < plane || l.Plane >= len(b.MidOf) || l.Top < 0 || l.Top >= len(b.Tops) || l.Cable < 0 {
			return fmt.Errorf("lane %d is of plane %d and top %d: there are %d and %d, and lanes are in order of planes", i, l.Plane, l.Top, len(b.MidOf), len(b.Tops))
		}
		plane = l.Plane
	}
	for j, m := range b.MidOf {
		if m < mid || m >= len(b.Mids)/b.Pods {
			return fmt.Errorf("plane %d passes mid %d of each pod: they have %d, and planes are in order of mids", j, m, len(b.Mids)/b.Pods)
		}
		mid = m
	}
	return b.validateSwitches()
}

// validateSwitches checks that every GUID stands for one thing, and that every switch
// has as many places for cables as there are lanes or planes.
func (b *PodBaseline) validateSwitches() error {
	seen := meanings{}
	for i, t := range b.Tops {
		if err := seen.add(t.GUID, "top %d", i); err != nil {
			return err
		}
	}
	for i, m := range b.Mids {
		if first, end := b.lanesOfMid(i); len(m.Uplinks) != end-first {
			return fmt.Errorf("mid %d has %d uplinks for %d lanes", i, len(m.Uplinks), end-first)
		}
		if m.GUID != 0 {
			if err := seen.add(m.GUID, "mid %d", i); err != nil {
				return err
			}
		}
	}
	for i, l := range b.Leaves {
		if len(l.Uplinks) != len(b.MidOf) || l.Pod < 0 || l.Pod >= b.Pods {
			return fmt.Errorf("leaf %s has %d uplinks for %d planes, and is in pod %d of %d", l.GUID, len(l.Uplinks), len(b.MidOf), l.Pod, b.Pods)
		}
		if err := seen.addLeaf(i, &l.BaselineLeaf); err != nil {
			return err
		}
	}
	return nil
}

// lanesOfMid returns the lanes of the planes that pass a mid: from the first up to the end.
func (b *PodBaseline) lanesOfMid(m int) (first, end int) {
	index := m % (len(b.Mids) / b.Pods)
	for _, l := range b.Lanes {
		switch of := b.MidOf[l.Plane]; {
		case of < index:
			first++
			end++
		case of == index:
			end++
		}
	}
	return first, end
}

// clone returns a deep copy.
func (b *PodBaseline) clone() *PodBaseline {
	c := *b
	c.MidOf, c.Lanes = append([]int(nil), b.MidOf...), append([]BaselineLane(nil), b.Lanes...)
	c.Tops, c.Mids = append([]BaselineTop(nil), b.Tops...), append([]BaselineMid(nil), b.Mids...)
	c.Leaves = append([]BaselineLeafInPod(nil), b.Leaves...)
	for i := range c.Mids {
		c.Mids[i].Uplinks = append([]Uplink(nil), c.Mids[i].Uplinks...)
	}
	for i := range c.Leaves {
		c.Leaves[i].Uplinks = append([]Uplink(nil), c.Leaves[i].Uplinks...)
		c.Leaves[i].Slots = append([]Slot(nil), c.Leaves[i].Slots...)
	}
	return &c
}
