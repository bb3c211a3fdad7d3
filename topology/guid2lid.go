package topology

import (
	"bytes"
	"fmt"
	"math/bits"
	"strconv"

	"github.com/forsd/forsd/ib"
)

// LIDRange is the range of LIDs that a port owns, both ends included.
type LIDRange struct {
	Min, Max ib.LID
}

// Size returns the number of LIDs in the range.
func (r LIDRange) Size() int { return int(r.Max) - int(r.Min) + 1 }

// ReadGUID2LID parses OpenSM's cache guid2lid: the LID range of every port GUID that OpenSM
// has seen, including ports that are gone. Like OpenSM (osm_db_files.c, osm_db_pack.h) it
// accepts numbers in any base of C, ignores the text after the two LIDs, and keeps the
// first of two ranges for one GUID. Unlike OpenSM, which drops them, it rejects impossible
// ranges.
func ReadGUID2LID(data []byte) (map[ib.GUID]LIDRange, error) {
	ranges := make(map[ib.GUID]LIDRange, bytes.Count(data, newline)/2+1)
	for number := 1; len(data) > 0; number++ {
		var line []byte
		line, data, _ = bytes.Cut(data, newline)
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		guid, r, err := parseGUID2LID(line)
		if err != nil {
			return nil, fmt.Errorf("read guid2lid line %d: %w", number, err)
		}
		if _, dup := ranges[guid]; !dup {
			ranges[guid] = r
		}
	}
	return ranges, nil
}

func parseGUID2LID(line []byte) (ib.GUID, LIDRange, error) {
	if line[0] == ' ' || line[0] == '\t' {
		return 0, LIDRange{}, fmt.Errorf("%s begins with a space: a GUID was expected", quote(line))
	}
	words := bytes.Fields(line)
	if len(words) < 3 {
		return 0, LIDRange{}, fmt.Errorf("%s has %d words: a GUID, the first and the last LID were expected", quote(line), len(words))
	}
	guid, err := strconv.ParseUint(string(words[0]), 0, 64)
	if err != nil || guid == 0 {
		return 0, LIDRange{}, fmt.Errorf("%s is not a GUID", quote(words[0]))
	}
	var lids [2]ib.LID
	for i := range lids {
		lid, err := strconv.ParseUint(string(words[1+i]), 0, 16)
		if err != nil || lid == 0 || ib.LID(lid) > ib.MaxUnicastLID {
			return 0, LIDRange{}, fmt.Errorf("%s is not a unicast LID (1 to %#x), for port %s", quote(words[1+i]), ib.MaxUnicastLID, ib.GUID(guid))
		}
		lids[i] = ib.LID(lid)
	}
	r := LIDRange{lids[0], lids[1]}
	if r.Min > r.Max {
		return 0, LIDRange{}, fmt.Errorf("the LIDs %#x to %#x of port %s are in the wrong order", r.Min, r.Max, ib.GUID(guid))
	}
	return ib.GUID(guid), r, nil
}

// ApplyGUID2LID sets the LMC of every port that owns LIDs to the size of its range in
// ranges. Every adapter and router port with a LID must be in ranges, and its LID must be
// the first of its range; otherwise the error names the port for which the cache is stale,
// and f is unchanged.
func (f *Fabric) ApplyGUID2LID(ranges map[ib.GUID]LIDRange) error {
	ends := f.EndPorts()
	old := make([]uint8, len(ends))
	lmcs := make([]uint8, len(ends))
	for i, e := range ends {
		old[i], lmcs[i] = e.LMC, e.LMC
		r, known := ranges[e.GUID]
		switch {
		case known:
			lmc, err := f.lmcOf(e, r)
			if err != nil {
				return fmt.Errorf("apply guid2lid: %w", err)
			}
			lmcs[i] = lmc
		case e.LID != 0 && f.Nodes[e.Node].Kind != Switch:
			return fmt.Errorf("apply guid2lid: the cache is stale: it lacks port %s (%s), which has LID %d", e.GUID, f.PortLabel(e.PortRef), e.LID)
		}
	}
	f.setLMCs(ends, lmcs)
	if err := f.validateLIDs(); err != nil {
		f.setLMCs(ends, old)
		return fmt.Errorf("apply guid2lid: the cache is stale: %w", err)
	}
	return nil
}

// lmcOf returns the LMC of an end port with a range.
func (f *Fabric) lmcOf(e EndPort, r LIDRange) (uint8, error) {
	size := r.Size()
	switch {
	case e.LID != 0 && e.LID != r.Min:
		return 0, fmt.Errorf("the cache is stale: port %s (%s) has LID %d, and the cache has %d to %d", e.GUID, f.PortLabel(e.PortRef), e.LID, r.Min, r.Max)
	case size < 1 || size > 1<<ib.MaxLMC || size&(size-1) != 0:
		return 0, fmt.Errorf("port %s (%s) has %d LIDs, %d to %d: a power of two up to %d was expected", e.GUID, f.PortLabel(e.PortRef), size, r.Min, r.Max, 1<<ib.MaxLMC)
	case int(r.Min)%size != 0:
		return 0, fmt.Errorf("port %s (%s) has %d LIDs from %d on, which is not a multiple of %d", e.GUID, f.PortLabel(e.PortRef), size, r.Min, size)
	}
	return uint8(bits.TrailingZeros(uint(size))), nil
}

func (f *Fabric) setLMCs(ends []EndPort, lmcs []uint8) {
	for i, e := range ends {
		f.At(e.PortRef).LMC = lmcs[i]
	}
}

// permissiveLID is the LID of a port without an LID; some tools print it.
const permissiveLID ib.LID = 0xFFFF

// assigned returns a LID given in a file, 0 if none is assigned.
func assigned(lid ib.LID) ib.LID {
	if lid == permissiveLID {
		return 0
	}
	return lid
}
