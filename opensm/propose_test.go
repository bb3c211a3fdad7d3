package opensm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/forsd/forsd/ib"
)

// badLines are lines of opensm.conf that forsd can do nothing with, and lines that do
// not concern it.
var badLines = []string{"lmc 0", "lmc 2", "lmc_esp0 TRUE", "routing_engine minhop", "routing_engine ftree,updn", "routing_engine file", "routing_engine ar_updn",
	"routing_engine fors,file,updn", "lfts_file /elsewhere/lfts", "lfts_file (null)", "use_ucast_cache TRUE", "event_plugin_name perfmgr",
	"event_plugin_name armgr", "event_plugin_name forsosm", "event_plugin_options socket=/elsewhere deadline=20", "sweep_on_trap FALSE", "sweep_interval 0",
	"reassign_lids TRUE", "sm_inactive TRUE", "dump_files_dir /elsewhere", "log_flags 0x43", "log_flags 0x01", "lid_matrix_dump_file /some/matrix",
	"ar_mode 1", "shield_mode 1", "force_log_flush FALSE", "max_op_vls 5", "# lmc 7", "", "console off", "\tlmc\t1"}

// TestPropose: whatever opensm.conf says, with the lines that are proposed nothing in it
// defeats forsd, a second proposal is empty, and the lines of others are as they were.
func TestPropose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.SampledFrom(badLines), 0, 12).Draw(t, "lines")
		end := rapid.SampledFrom([]string{"", "\n"}).Draw(t, "end")
		lanes, plugin := rapid.IntRange(1, 128).Draw(t, "lanes"), rapid.Bool().Draw(t, "plugin")
		want := Want{LFTsFile: "/var/lib/forsd/opensm/lfts.dump", RootFile: "/run/forsd/updn.root", DumpDir: "/var/log", CacheDir: DefaultCacheDir, Lanes: lanes, LMC: -1, Socket: "/run/forsd/opensm.sock"}
		lmc, enough := SuitableLMC(lanes, 100, 10)
		if !enough {
			t.Fatalf("100 ports have no LIDs for %d lanes", lanes)
		}
		conf := []byte(strings.Join(lines, "\n") + end)
		s, _ := ReadConf(conf)
		if !plugin && (s.PluginLoaded() || strings.Contains(s.EventPlugins, "armgr")) {
			t.Skip("doctor says so")
		}
		after := Apply(conf, s.Propose(want, lmc, plugin))
		got, err := ReadConf(after)
		if err != nil {
			t.Fatalf("%v:\n%s", err, after)
		}
		for _, f := range got.Check(want) {
			if f.Code != AdaptiveRoutingOn { // armgr is taken out by hand
				t.Errorf("%s: %s\n%s", f.Code, f.Text, after)
			}
		}
		if again := got.Propose(want, lmc, plugin); len(again) > 0 {
			t.Errorf("it proposes %+v for\n%s", again, after)
		}
		for _, line := range lines {
			if (line == "max_op_vls 5" || line == "console off") && !strings.Contains(string(after), line+"\n") {
				t.Errorf("%q is gone from\n%s", line, after)
			}
		}
	})
}

// TestProposeIsFragment: for 32 lanes and no opensm.conf the proposal is what the
// fragment in configs says.
func TestProposeIsFragment(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "configs", "opensm.conf.fragment"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := ReadConf(data)
	if err != nil {
		t.Fatal(err)
	}
	needs := Want{LFTsFile: "/var/lib/forsd/opensm/lfts.dump", RootFile: "/run/forsd/updn.root", DumpDir: "/var/log", Lanes: 32, LMC: -1, Socket: DefaultSocket}
	got, err := ReadConf(Apply(nil, DefaultSettings().Propose(needs, 5, true)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, plainSettings); diff != "" {
		t.Errorf("the fragment (-) and the proposal (+) differ:\n%s", diff)
	}
}

// TestApplyKeepsOthers: only the line that counts is touched, and comments stay.
func TestApplyKeepsOthers(t *testing.T) {
	const conf = "# ours\nlmc 0\nlmc 1 # here\nrouting_engine minhop"
	s, err := ReadConf([]byte(conf))
	if err != nil {
		t.Fatal(err)
	}
	changes := s.Propose(Want{LFTsFile: "/f", DumpDir: "/var/log", Lanes: 8, LMC: -1}, 3, false)
	got := string(Apply([]byte(conf), changes))
	if !strings.HasPrefix(got, "# ours\nlmc 0\n# forsd: 8 LIDs for each port of a host, for 8 lanes.\nlmc 3\n# forsd: ") || !strings.Contains(got, "\nrouting_engine file,updn\n\n#") {
		t.Errorf("it makes\n%s", got)
	}
	if changes[0].Was != "lmc 1 # here" {
		t.Errorf("it takes %+v for what was there", changes[0])
	}
}

// TestSuitableLMC checks that the LMC fits into the available LIDs.
func TestSuitableLMC(t *testing.T) {
	for _, c := range []struct {
		lanes, ports, switches, lmc int
		enough                      bool
	}{{20, 360, 38, 5, true}, {1, 2, 1, 0, true}, {8, 64, 16, 3, true}, {9, 64, 16, 4, true}, {32, 1530, 100, 5, true}, {32, 1535, 100, 4, false},
		{128, 300, 40, 7, true}, {200, 300, 40, 7, false}, {64, 40000, 3000, 0, false}} {
		lmc, enough := SuitableLMC(c.lanes, c.ports, c.switches)
		if lmc != c.lmc || enough != c.enough {
			t.Errorf("%d lanes, %d ports, %d switches: LMC %d (%v), want %d (%v)", c.lanes, c.ports, c.switches, lmc, enough, c.lmc, c.enough)
		}
		if highest := HighestLID(lmc, c.ports, c.switches); highest > int(ib.MaxUnicastLID) {
			t.Errorf("%+v takes LIDs up to %d", c, highest)
		}
	}
}
