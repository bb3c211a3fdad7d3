// Package ib has the words of InfiniBand that every package shares: GUIDs, LIDs, rates of links, and
// how hosts are named in descriptions.
package ib

import (
	"fmt"
	"strconv"
	"strings"
)

type GUID uint64

func (g GUID) String() string { return fmt.Sprintf("0x%016x", uint64(g)) }

func (g GUID) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

func (g *GUID) UnmarshalText(text []byte) error {
	v, err := ParseGUID(string(text))
	*g = v
	return err
}

func ParseGUID(s string) (GUID, error) {
	digits := strings.TrimPrefix(strings.TrimPrefix(s, "0x"), "0X")
	v, err := strconv.ParseUint(digits, 16, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a GUID: want up to 16 hexadecimal digits", s)
	}
	return GUID(v), nil
}

type LID uint16

const MaxUnicastLID LID = 0xBFFF

const MaxLMC = 7

type Speed uint8

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

var laneGbps = [...]float64{0, 2, 4, 8, 10, 13.64, 25, 50, 100, 200}

func (s Speed) String() string { return speedNames[s] }

type Rate struct {
	Width uint8 // physical lanes: 1, 2, 4, 8, 12; 0 unknown
	Speed Speed
}

func (r Rate) String() string { return fmt.Sprintf("%dx%s", r.Width, r.Speed) }

func (r Rate) Known() bool { return r.Width != 0 && r.Speed != UnknownSpeed }

func (r Rate) Gbps() float64 { return float64(r.Width) * laneGbps[r.Speed] }

func (r Rate) Below(ref Rate) bool {
	if r.Width != 0 && ref.Width != 0 && r.Speed == ref.Speed {
		return r.Width < ref.Width
	}
	return r.Known() && ref.Known() && r.Gbps() < ref.Gbps()
}

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
