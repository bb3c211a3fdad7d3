package topology

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/forsd/forsd/ib"
)

// A Baseline is that of a fat tree of two levels or, if Pods is set, of three. Code that
// only stores and passes baselines does not need to distinguish them.

// plainBaseline is a Baseline of two levels as its file holds it.
type plainBaseline Baseline

func (b *plainBaseline) validate() error { return (*Baseline)(b).validate() }

// MarshalJSON prints the baseline as its file holds it.
func (b *Baseline) MarshalJSON() ([]byte, error) {
	if b.Pods != nil {
		return json.Marshal(b.Pods)
	}
	return json.Marshal((*plainBaseline)(b))
}

// UnmarshalJSON parses the output of MarshalJSON.
func (b *Baseline) UnmarshalJSON(data []byte) error {
	if HasPods(data) {
		*b = Baseline{Pods: &PodBaseline{}}
		return json.Unmarshal(data, b.Pods)
	}
	return json.Unmarshal(data, (*plainBaseline)(b))
}

// Recognise numbers the fat tree in a fabric from scratch: the one of two levels or,
// failing that, the one of three. The error is that of NewBaseline, with the cable that
// rules out three levels, if there is one.
func Recognise(f *Fabric) (*Baseline, error) {
	b, err := NewBaseline(f)
	var two, three *NotFatTree
	if !errors.As(err, &two) {
		return b, err
	}
	pods, podsErr := NewPodBaseline(f)
	switch {
	case podsErr == nil:
		return &Baseline{Pods: pods}, nil
	case errors.As(podsErr, &three) && strings.HasSuffix(three.Why, tooDeep):
		return nil, three
	case errors.As(podsErr, &three) && strings.HasPrefix(three.Where, "cable "):
		return nil, &NotFatTree{two.Where, fmt.Sprintf("%s; nor one of three levels: %s %s", two.Why, three.Where, three.Why)}
	case errors.As(podsErr, &three):
		return nil, err
	}
	return nil, podsErr
}

// slots lists the leaves with their host ports.
func (b *Baseline) slots() iter.Seq[*BaselineLeaf] {
	return func(yield func(*BaselineLeaf) bool) {
		for i := range b.Leaves {
			if !yield(&b.Leaves[i]) {
				return
			}
		}
		if b.Pods == nil {
			return
		}
		for i := range b.Pods.Leaves {
			if !yield(&b.Pods.Leaves[i].BaselineLeaf) {
				return
			}
		}
	}
}

// Hosts lists the host ports of the baseline, leaf by leaf.
func (b *Baseline) Hosts() iter.Seq[Slot] {
	return func(yield func(Slot) bool) {
		for l := range b.slots() {
			for _, s := range l.Slots {
				if s.GUID != 0 && !yield(s) {
					return
				}
			}
		}
	}
}

// uppers lists the switches above the leaves, with the first lane of those that lanes are
// counted by.
func (b *Baseline) uppers() (names map[ib.GUID]string, lanes int, first map[ib.GUID]int) {
	names, first = map[ib.GUID]string{}, map[ib.GUID]int{}
	for i := range b.Spines {
		names[b.Spines[i].GUID], first[b.Spines[i].GUID] = b.Spines[i].Name, lanes
		lanes += b.Spines[i].Cables
	}
	if p := b.Pods; p != nil {
		for i := range p.Mids {
			if p.Mids[i].GUID != 0 {
				names[p.Mids[i].GUID] = p.Mids[i].Name
			}
		}
		for i := range p.Tops {
			names[p.Tops[i].GUID] = p.Tops[i].Name
		}
		for k, l := range p.Lanes {
			if _, known := first[p.Tops[l.Top].GUID]; !known {
				first[p.Tops[l.Top].GUID] = k
			}
		}
		lanes = len(p.Lanes)
	}
	return names, lanes, first
}
