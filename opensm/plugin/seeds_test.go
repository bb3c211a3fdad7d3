package plugin

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/fabgen"
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
func seeds(t testing.TB) map[string]map[string][]byte {
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
	return map[string]map[string][]byte{
		"stream": {
			"tables":  bytes.Join([][]byte{{0}, welcome, whole, change, resweep}, nil),
			"none":    bytes.Join([][]byte{{5}, welcome, none}, nil),
			"version": append([]byte{1}, finish(append(newFrame(kindWelcome, at), magic+"\x03\x00\x00\x00"...))...),
		},
		"tables": {
			"change": bytes.Join([][]byte{length, {4, 2}, whole[fixed:], change[fixed:]}, nil),
			"whole":  bytes.Join([][]byte{length, {4, 0}, whole[fixed:]}, nil),
		},
	}
}

// TestSeeds compares the seeds of the C fuzz targets with what this end sends,
// and runs the targets on them under the sanitizers.
func TestSeeds(t *testing.T) {
	out := t.TempDir()
	for target, files := range seeds(t) {
		dir := filepath.Join("fuzz", "corpus", target)
		program := filepath.Join(out, ".libforsosm", "replay-"+target)
		args := []string{}
		for name, want := range files {
			path := filepath.Join(dir, name)
			args = append(args, path)
			if *update {
				if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(path, want, 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s is not what is sent now (%v): run go test -update", path, err)
			}
		}
		for _, cmd := range []*exec.Cmd{exec.Command("make", "-s", "out="+out, program), exec.Command(program, args...)} {
			if said, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", cmd, err, said)
			}
		}
	}
}
