package opensm

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/forsd/forsd/ib"
)

// ReadConf reads an opensm.conf as OpenSM does, on top of its defaults. The settings are
// usable whatever the error, which lists values that OpenSM takes otherwise than they
// were probably meant.
func ReadConf(data []byte) (Settings, error) {
	s := DefaultSettings()
	err := s.readConf(data)
	return s, err
}

// SuitableLMC returns the smallest LMC that gives each end port an LID a lane, or the
// largest one whose LIDs there are, then with enough false. Switches take one LID each, and
// the ranges of ports begin at multiples of their size.
func SuitableLMC(lanes, ports, switches int) (lmc int, enough bool) {
	for lmc < maxLMC && lanes > 1<<lmc {
		lmc++
	}
	for lmc > 0 && HighestLID(lmc, ports, switches) > int(ib.MaxUnicastLID) {
		lmc--
	}
	return lmc, lanes <= 1<<lmc
}

// HighestLID bounds the LIDs that a fabric takes with an LMC: the first range of all is
// broken by LID 0.
func HighestLID(lmc, ports, switches int) int { return (ports+1)<<lmc + switches }

// Change is a line of opensm.conf to write.
type Change struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	Was   string `json:"was"` // the line that counts now, "" where the key is not in the file
	Why   string `json:"why"`

	line int // of Was, 0 if none
}

// Propose returns the lines that opensm.conf needs for forsd, in a fixed order, without
// those that it has and those that are defaults. lmc is for want.Lanes; a larger LMC stays.
// plugin is whether OpenSM can load forsd's plugin.
func (s Settings) Propose(want Want, lmc int, plugin bool) []Change {
	with := s
	var changes []Change
	need := func(key, value, why string, has bool) {
		if !has {
			changes = append(changes, Change{Key: key, Value: value, Why: why, line: s.origins[key].line})
		}
	}
	need("lmc", fmt.Sprint(lmc), fmt.Sprintf("%d LIDs for each port of a host, for %d lanes", 1<<lmc, want.Lanes), int(s.LMC) == lmc || int(s.LMC) > lmc && want.LMC < 0)
	if plugin {
		with.EventPlugins = strings.Join(append(slices.DeleteFunc(words(s.EventPlugins), func(p string) bool { return p == PluginName }), PluginName), " ")
		need("event_plugin_name", with.EventPlugins, "forsd's plugin tells it what happens, and asks it for tables within the sweep", s.PluginLoaded())
		need("event_plugin_options", with.optionsFor(want.Socket), "where forsd listens, the milliseconds that a sweep waits for tables, and forsd's user",
			s.PluginLoaded() && samePath(cmp.Or(s.PluginSocket(), DefaultSocket), want.Socket))
	}
	need("routing_engine", with.bestEngines(), "the tables are forsd's, and OpenSM makes its own where there are none", s.RoutingEngine == with.bestEngines())
	need("lfts_file", want.LFTsFile, "the tables where the plugin does not answer", s.LFTsFile != "" && samePath(s.LFTsFile, want.LFTsFile))
	need("root_guid_file", want.RootFile, "the leaf from which OpenSM's own engine orders the switches", s.RootFile != "" && samePath(s.RootFile, want.RootFile))
	need("use_ucast_cache", "FALSE", "with the cache OpenSM does not load new tables", !s.UcastCache)
	need("lmc_esp0", "FALSE", "a switch needs one LID", !s.LMCOnSwitches)
	need("lid_matrix_dump_file", "(null)", "hop counts from a file do not follow the fabric", s.LIDMatrixFile == "")
	need("sweep_on_trap", "TRUE", "a dead cable causes a sweep at once", s.SweepOnTrap)
	need("sweep_interval", "10", "light sweeps find what no trap told of", s.SweepInterval > 0)
	need("sm_inactive", "FALSE", "an inactive OpenSM never becomes master", !s.Inactive)
	need("dump_files_dir", want.DumpDir, "where forsd reads what OpenSM has found", samePath(s.DumpDir, want.DumpDir))
	need("log_flags", "0x03", "errors and main events; 0x40 adds some 200 ms to a sweep", s.LogFlags&logInfo != 0 && s.LogFlags&logRouting == 0)
	need("force_log_flush", "TRUE", "the log reaches forsd line by line", s.LogFlush)
	need("honor_guid2lid_file", "TRUE", "LIDs stay when another manager takes over", s.HonorGUID2LID)
	need("reassign_lids", "FALSE", "LIDs stay when OpenSM starts", !s.ReassignLIDs)
	if on(s.AdaptiveRouting) {
		need("ar_mode", "0", "switches send by their tables", false)
	}
	if on(s.Shield) {
		need("shield_mode", "0", "switches send by their tables", false)
	}
	return changes
}

// optionsFor returns the plugin's options for a socket; those that were set stay.
func (s *Settings) optionsFor(socket string) string {
	options := words(s.optionsWith(socket))
	for _, o := range []string{"deadline=50", "user=forsd"} {
		key, _, _ := strings.Cut(o, "=")
		if !slices.ContainsFunc(options, func(have string) bool { return strings.HasPrefix(have, key+"=") }) {
			options = append(options, o)
		}
	}
	return strings.Join(options, " ")
}

// Apply makes the changes in an opensm.conf that they were proposed for: the effective line
// is replaced, and missing keys are appended. It fills in the previous lines.
func Apply(conf []byte, changes []Change) []byte {
	lines := bytes.SplitAfter(conf, []byte("\n"))
	if n := len(lines) - 1; len(lines[n]) == 0 {
		lines = lines[:n]
	} else {
		lines[n] = append(slices.Clone(lines[n]), '\n')
	}
	var added []byte
	for i := range changes {
		c := &changes[i]
		text := fmt.Appendf(nil, "# forsd: %s.\n%s %s\n", c.Why, c.Key, c.Value)
		if c.line == 0 {
			added = append(append(added, '\n'), text...)
			continue
		}
		c.Was = strings.TrimSpace(string(lines[c.line-1]))
		lines[c.line-1] = text
	}
	return append(bytes.Join(lines, nil), added...)
}
