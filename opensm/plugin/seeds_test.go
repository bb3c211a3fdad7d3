package plugin

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/programs"
)

var update = flag.Bool("update", false, "write the seeds of the C fuzz targets")

// tablesOf are tables of a small fabric, and others that differ in a few blocks.
func tablesOf(t testing.TB) (first, second *lft.Tables) {
	t.Helper()
	f := fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2})
	fabgen.AssignLIDs(f, 5)
	first, err := planned(t.Context(), Request{Sight: Sight{Fabric: f}})
	if err != nil {
		t.Fatal(err)
	}
	second, err = planned(t.Context(), Request{Sight: Sight{Fabric: f}})
	if err != nil {
		t.Fatal(err)
	}
	second.Switches[1].Out[70] = 1
	second.Switches[2].Out[1], second.Switches[2].Out[71] = 2, lft.NoPath
	return first, second
}

// encoded is the message tables.
func encoded(t testing.TB, number uint64, tables *lft.Tables, holds sent) ([]byte, sent) {
	t.Helper()
	buf, next, err := encodeTables(number, tables, holds)
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint64(buf[8:], 0) // seeds do not tell the time
	return buf, next
}

// seeds are what the C fuzz targets begin with, by target and name.
func seeds(t testing.TB) map[string][]byte {
	t.Helper()
	first, second := tablesOf(t)
	at := time.Unix(0, 0)
	welcome := finish(appendWelcome(newFrame(kindWelcome, at)))
	whole, holds := encoded(t, 1, first, sent{})
	change, _ := encoded(t, 2, second, holds)
	none := appendNone(1, errors.New("a reason"))
	binary.LittleEndian.PutUint64(none[8:], 0)
	resweep := finish(append(newFrame(kindResweep, at), byte(Reroute)))

	const fixed = headerSize + 28 // up to the first switch
	length := binary.LittleEndian.AppendUint16(nil, uint16(len(whole)-fixed))
	var file bytes.Buffer
	if err := first.Write(&file, nil); err != nil {
		t.Fatal(err)
	}
	chance := rand.NewChaCha8([32]byte{1})
	fabric := make([]byte, 600)
	_, _ = chance.Read(fabric)
	return map[string][]byte{
		"stream/tables":  bytes.Join([][]byte{{0}, welcome, whole, change, resweep}, nil),
		"stream/none":    bytes.Join([][]byte{{5}, welcome, none}, nil),
		"stream/version": append([]byte{1}, finish(append(newFrame(kindWelcome, at), magic+"\x03\x00\x00\x00"...))...),
		"tables/change":  bytes.Join([][]byte{length, {4, 2}, whole[fixed:], change[fixed:]}, nil),
		"tables/whole":   bytes.Join([][]byte{length, {4, 0}, whole[fixed:]}, nil),
		"file/tables":    file.Bytes(),
		"mend/fabric":    fabric,
		"mend/parallel":  bytes.Repeat([]byte{7, 1, 3, 250}, 100),
	}
}

// TestSeeds compares the seeds of the C fuzz targets with the messages of this end, and runs
// the targets on them under the sanitizers.
func TestSeeds(t *testing.T) { programs.Seeds(t, "libforsosm", seeds(t), *update) }
