// Package ib has the words of InfiniBand that every package shares: GUIDs, LIDs, rates of links,
// counters of ports, and how hosts are named in descriptions.
package ib

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// GUID is the 64-bit EUI of a node or port. Zero means "none".
type GUID uint64

// String formats the GUID as 0x and 16 hexadecimal digits.
func (g GUID) String() string { return fmt.Sprintf("0x%016x", uint64(g)) }

// MarshalText prints the GUID as String does.
func (g GUID) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText parses a GUID like ParseGUID.
func (g *GUID) UnmarshalText(text []byte) error {
	v, err := ParseGUID(string(text))
	*g = v
	return err
}

// ParseGUID reads a hexadecimal GUID with or without 0x.
func ParseGUID(s string) (GUID, error) {
	digits := strings.TrimPrefix(strings.TrimPrefix(s, "0x"), "0X")
	v, err := strconv.ParseUint(digits, 16, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a GUID: want up to 16 hexadecimal digits", s)
	}
	return GUID(v), nil
}

// End is an end of a cable: a port of a node.
type End struct {
	GUID GUID  `json:"guid"` // of the node
	Port uint8 `json:"port"`
}

// Compare orders ends by node, then by port.
func (e End) Compare(f End) int {
	return cmp.Or(cmp.Compare(e.GUID, f.GUID), cmp.Compare(e.Port, f.Port))
}

// LID is a local identifier. Unicast LIDs run from 1 to MaxUnicastLID; zero
// means "none assigned".
type LID uint16

// MaxUnicastLID is the last unicast LID; multicast begins after it.
const MaxUnicastLID LID = 0xBFFF

// MaxLMC is the largest LID mask control: a port has at most 2^7 LIDs.
const MaxLMC = 7

// Speed is the signalling generation of a link, ordered by speed.
type Speed uint8

// The speeds of InfiniBand. UnknownSpeed is what old tools print as "??".
const (
	UnknownSpeed Speed = iota
	SDR
	DDR
	QDR
	FDR10
	FDR
	EDR
	HDR
	NDR
	XDR
)

var speedNames = [...]string{"?", "SDR", "DDR", "QDR", "FDR10", "FDR", "EDR", "HDR", "NDR", "XDR"}

// laneGbps is the data rate of one physical lane in Gb/s.
var laneGbps = [...]float64{0, 2, 4, 8, 10, 13.64, 25, 50, 100, 200}

// String returns the generation's name, "?" when unknown.
func (s Speed) String() string { return speedNames[s] }

// Rate is the width and speed that a link has trained to.
type Rate struct {
	Width uint8 // physical lanes: 1, 2, 4, 8, 12; 0 unknown
	Speed Speed
}

// String prints the rate as ibnetdiscover does, such as 4xHDR.
func (r Rate) String() string { return fmt.Sprintf("%dx%s", r.Width, r.Speed) }

// Known reports whether both width and speed are known.
func (r Rate) Known() bool { return r.Width != 0 && r.Speed != UnknownSpeed }

// Gbps returns the link's data rate in Gb/s, 0 when unknown.
func (r Rate) Gbps() float64 { return float64(r.Width) * laneGbps[r.Speed] }

// Below reports whether r is known to be slower or narrower than the known ref.
func (r Rate) Below(ref Rate) bool {
	if r.Width != 0 && ref.Width != 0 && r.Speed == ref.Speed {
		return r.Width < ref.Width
	}
	return r.Known() && ref.Known() && r.Gbps() < ref.Gbps()
}

// ParseRate reads a rate such as 4xHDR or 2xNDR. An unknown word gives an
// unknown width or speed, not an error: newer tools invent names.
func ParseRate(s string) Rate {
	width, name, ok := strings.Cut(s, "x")
	if !ok {
		return Rate{}
	}
	var r Rate
	switch width {
	case "1", "2", "4", "8", "12":
		w, _ := strconv.Atoi(width)
		r.Width = uint8(w)
	}
	for i, n := range speedNames {
		if i > 0 && n == name {
			r.Speed = Speed(i)
		}
	}
	return r
}
