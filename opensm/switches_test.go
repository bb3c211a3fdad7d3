package opensm

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/opensm/umad"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// TestSwitchesFallBack reads tables by a command where datagrams cannot be used,
// and says why, once for each reason.
func TestSwitchesFallBack(t *testing.T) {
	f := fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2})
	want := planned(t, f)
	file := filepath.Join(t.TempDir(), "tables")
	var text strings.Builder
	if err := want.Write(&text, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	var notes []error
	s := &Switches{Port: UmadOff, Command: ReadBack{Timeout: time.Minute, Command: []string{"cat", file}}, Note: func(err error) { notes = append(notes, err) }}
	for range 2 {
		got, whole, err := s.Tables(t.Context(), f)
		if err != nil || whole {
			t.Fatal(whole, err)
		}
		if err := lft.Compare(want, got, lft.LIDs(f)); err != nil {
			t.Error(err)
		}
	}
	s.Port = "none_7:1" // no machine has that one
	if _, whole, err := s.Tables(t.Context(), f); err != nil || whole {
		t.Error(whole, err)
	}
	if len(notes) != 2 || !errors.Is(notes[0], ErrSwitchedOff) || notes[1] == nil || errors.Is(notes[1], ErrSwitchedOff) {
		t.Errorf("notes %v", notes)
	}

	s.Command.Command = []string{"no-such-program"}
	_, _, err := s.Tables(t.Context(), f)
	if err == nil || !strings.Contains(err.Error(), "no-such-program") || umad.BuiltIn != strings.Contains(err.Error(), notes[1].Error()) {
		t.Errorf("both ways fail: %v", err)
	}
}

func TestPick(t *testing.T) {
	f := fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2})
	var inside ib.GUID
	for _, e := range f.EndPorts() {
		if f.Nodes[e.Node].Kind == topology.Adapter {
			inside = e.GUID
		}
	}
	ports := []umad.LocalPort{
		{Device: "mlx5_0", Number: 1, GUID: 1, State: topology.Active},
		{Device: "mlx5_1", Number: 1, GUID: 2, State: topology.Active, InfiniBand: true},
		{Device: "mlx5_2", Number: 1, GUID: 3, State: topology.Down, InfiniBand: true},
		{Device: "mlx5_2", Number: 2, GUID: inside, State: topology.Init, InfiniBand: true},
	}
	for _, c := range []struct{ setting, want, words string }{
		{setting: "", want: "mlx5_2:2"},
		{setting: "mlx5_1", want: "mlx5_1:1"},
		{setting: "mlx5_2", want: "mlx5_2:2"},
		{setting: "mlx5_2:2", want: "mlx5_2:2"},
		{setting: "mlx5_2:1", words: "none of the InfiniBand ports [mlx5_2:1] is active"},
		{setting: "mlx5_0", words: "mlx5_0 is a port of Ethernet: set opensm.umad to one of [mlx5_1:1 mlx5_2:1 mlx5_2:2]"},
		{setting: "mlx5_3:1", words: "there is no InfiniBand port mlx5_3:1 on this machine: set opensm.umad to one of [mlx5_1:1 mlx5_2:1 mlx5_2:2]"},
	} {
		got, err := pick(ports, c.setting, f)
		switch {
		case c.words != "":
			if err == nil || !strings.Contains(err.Error(), c.words) {
				t.Errorf("%q: %v, %v; want %q", c.setting, got, err, c.words)
			}
		case err != nil || got.String() != c.want:
			t.Errorf("%q: %v, %v; want %s", c.setting, got, err, c.want)
		}
	}
	if got, err := pick(ports, "", nil); err != nil || got.String() != "mlx5_1:1" {
		t.Errorf("without a fabric: %v, %v", got, err)
	}
	for _, setting := range []string{"", "mlx5_0"} { // RoCE alone
		if _, err := pick(ports[:1], setting, f); err == nil || err.Error() != "there is no InfiniBand port on this machine (1 of Ethernet do not count)" {
			t.Errorf("with a port of Ethernet alone: %v", err)
		}
	}
	if _, err := pick(nil, "", f); err == nil || !strings.Contains(err.Error(), "no InfiniBand port on this machine") {
		t.Errorf("without ports: %v", err)
	}
}
