package opensm

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/forsd/forsd/internal/health"
)

// Want is what forsd needs of OpenSM's settings.
type Want struct {
	LFTsFile string // the table file that forsd writes
	RootFile string // the root_guid_file that forsd writes
	DumpDir  string // where forsd looks for opensm-subnet.lst
	CacheDir string // where forsd looks for guid2lid
	Lanes    int    // lanes of the fabric, 0 where not known yet
	LMC      int    // the LMC to insist on, negative for any that suits Lanes
	Socket   string // where forsd listens for the plugin, "" where it does not
}

// Check judges the settings; the warnings come in a fixed order, and their texts say
// what was found, why it matters, and what to do. Of the disk it looks only at
// which paths are links.
func (s Settings) Check(want Want) []health.Warning {
	var found []health.Warning
	for _, r := range rules {
		if text := r.check(&s, &want); text != "" {
			found = append(found, health.Warning{Code: r.code, Severity: r.severity, Title: r.title, Text: text})
		}
	}
	return found
}

// rule is a kind of finding; check returns its text, "" when all is well.
type rule struct {
	code     string
	severity health.Severity
	title    string
	check    func(s *Settings, want *Want) string
}

var rules = []rule{
	{RoutingEngineWrong, health.Critical, "OpenSM does not use forsd's tables", func(s *Settings, _ *Want) string {
		engines := s.engines()
		return unless(len(engines) > 0 && (engines[0] == FileEngine || engines[0] == PluginEngine),
			fmt.Sprintf("the routing engine is %q, so OpenSM makes its own tables; ", s.RoutingEngine)+s.advise("routing_engine", s.bestEngines(), true))
	}},
	{FallbackMissing, health.Critical, "OpenSM has no engine for when forsd is away", func(s *Settings, _ *Want) string {
		engines := s.engines()
		ours := len(engines) > 0 && (engines[0] == FileEngine || engines[0] == PluginEngine)
		at := slices.Index(engines, FileEngine)
		return unless(!ours || s.FallsBack() && (at == 0 || at == 1) && at+1 < len(engines),
			fmt.Sprintf("with the routing engines %q nothing takes a dead cable out of the tables while forsd is away and its plugin not loaded; ", s.RoutingEngine)+
				s.advise("routing_engine", s.bestEngines(), true))
	}},
	{PluginEngineUnknown, health.Critical, "OpenSM is to ask a plugin that it does not load", func(s *Settings, _ *Want) string {
		return unless(s.PluginLoaded() || !slices.Contains(s.engines(), PluginEngine),
			fmt.Sprintf("the engine %q is that of forsd's plugin, which OpenSM is not told to load; ", PluginEngine)+s.advise("event_plugin_name", PluginName, true))
	}},
	{PluginEngineMissing, health.Degraded, "OpenSM loads forsd's plugin and does not ask it for tables", func(s *Settings, _ *Want) string {
		engines := s.engines()
		return unless(!s.PluginLoaded() || len(engines) > 0 && engines[0] == PluginEngine,
			fmt.Sprintf("the routing engines are %q, so that new tables need a sweep of their own; ", s.RoutingEngine)+s.advise("routing_engine", s.bestEngines(), true))
	}},
	{PluginSocketWrong, health.Critical, "OpenSM's plugin looks for forsd elsewhere", func(s *Settings, want *Want) string {
		return unless(want.Socket == "" || !s.PluginLoaded() || samePath(cmp.Or(s.PluginSocket(), DefaultSocket), want.Socket),
			fmt.Sprintf("the plugin connects to %s, and forsd listens on %s; ", cmp.Or(s.PluginSocket(), DefaultSocket), want.Socket)+
				s.advise("event_plugin_options", s.optionsWith(want.Socket), true)+"; or set opensm.plugin.socket in forsd.yaml")
	}},
	{UcastCacheOn, health.Critical, "OpenSM's unicast cache is on", func(s *Settings, _ *Want) string {
		return unless(!s.UcastCache,
			"with the unicast cache OpenSM does not load new tables; "+s.advise("use_ucast_cache", "FALSE", true))
	}},
	{LFTsFileMissing, health.Critical, "OpenSM is given no table file", func(s *Settings, want *Want) string {
		return unless(s.LFTsFile != "",
			"without a table file the engine \"file\" routes by min-hop; "+s.advise("lfts_file", want.LFTsFile, true))
	}},
	{LFTsFileWrong, health.Critical, "OpenSM reads another table file", func(s *Settings, want *Want) string {
		return unless(s.LFTsFile == "" || want.LFTsFile == "" || samePath(s.LFTsFile, want.LFTsFile),
			fmt.Sprintf("OpenSM reads %s, and forsd writes %s; ", s.LFTsFile, want.LFTsFile)+
				s.advise("lfts_file", want.LFTsFile, true)+"; or set opensm.lfts_file in forsd.yaml")
	}},
	{RootFileWrong, health.Degraded, "OpenSM's own engine does not know where to begin", func(s *Settings, want *Want) string {
		return unless(want.RootFile == "" || !slices.Contains(s.engines(), fallback) || s.RootFile != "" && samePath(s.RootFile, want.RootFile),
			fmt.Sprintf("while forsd is away the engine %q may leave LIDs without a way, or ways on which packets wait for one another in a ring; ", fallback)+
				s.advise("root_guid_file", want.RootFile, true))
	}},
	{LMCWrong, health.Degraded, "the LMC is not the one configured", func(s *Settings, want *Want) string {
		return unless(want.LMC < 0 || int(s.LMC) == want.LMC,
			fmt.Sprintf("OpenSM gives LMC %d, and forsd.yaml asks for %d; ", s.LMC, want.LMC)+s.advise("lmc", fmt.Sprint(want.LMC), true))
	}},
	{LMCTooSmall, health.Degraded, "the LMC is too small for the lanes", checkLMC},
	{LMCOnSwitches, health.Degraded, "switches get several LIDs", func(s *Settings, _ *Want) string {
		return unless(!s.LMCOnSwitches || s.LMC == 0,
			"switches need one LID each, and the others take room in every table; "+s.advise("lmc_esp0", "FALSE", true))
	}},
	{LIDMatrixFileSet, health.Degraded, "OpenSM loads hop counts from a file", func(s *Settings, _ *Want) string {
		return unless(s.LIDMatrixFile == "",
			fmt.Sprintf("the hop counts of %s, which multicast uses, do not follow the fabric; ", s.LIDMatrixFile)+
				s.advise("lid_matrix_dump_file", "(null)", true))
	}},
	{DumpDirWrong, health.Critical, "OpenSM dumps elsewhere", func(s *Settings, want *Want) string {
		return unless(want.DumpDir == "" || samePath(s.DumpDir, want.DumpDir),
			fmt.Sprintf("OpenSM writes %s to %s, and forsd watches %s; ", SubnetFile, s.DumpDir, want.DumpDir)+
				s.advise("dump_files_dir", want.DumpDir, true)+"; or set opensm.dump_dir in forsd.yaml")
	}},
	{CacheDirWrong, health.Degraded, "OpenSM caches elsewhere", func(s *Settings, want *Want) string {
		return unless(want.CacheDir == "" || samePath(s.CacheDir, want.CacheDir),
			fmt.Sprintf("OpenSM keeps guid2lid in %s, and forsd reads it in %s; set opensm.cache_dir: %s in forsd.yaml, or start OpenSM with OSM_CACHE_DIR=%s",
				s.CacheDir, want.CacheDir, s.CacheDir, want.CacheDir))
	}},
	{SweepOnTrapOff, health.Critical, "OpenSM does not sweep on traps", func(s *Settings, _ *Want) string {
		return unless(s.SweepOnTrap,
			fmt.Sprintf("a dead cable is noticed only by the periodic sweep (every %d s); ", s.SweepInterval)+s.advise("sweep_on_trap", "TRUE", false))
	}},
	{SweepIntervalZero, health.Info, "OpenSM does no periodic sweeps", func(s *Settings, _ *Want) string {
		return unless(s.SweepInterval > 0,
			"where a trap is lost, nothing notices the change; "+s.advise("sweep_interval", "10", false))
	}},
	{ReassignLIDsOn, health.Degraded, "OpenSM reassigns LIDs", func(s *Settings, _ *Want) string {
		return unless(!s.ReassignLIDs,
			"every start of OpenSM may move every LID; "+s.advise("reassign_lids", "FALSE", false))
	}},
	{HonorGUID2LIDOff, health.Info, "LIDs may move when a standby manager takes over", func(s *Settings, _ *Want) string {
		return unless(s.HonorGUID2LID,
			"a standby OpenSM that becomes master takes the LIDs that ports have, not those of its guid2lid; where there is one, "+
				s.advise("honor_guid2lid_file", "TRUE", false))
	}},
	{SMInactive, health.Critical, "OpenSM is inactive", func(s *Settings, _ *Want) string {
		return unless(!s.Inactive,
			"it never becomes master; "+s.advise("sm_inactive", "FALSE", true))
	}},
	{OthersIgnored, health.Degraded, "OpenSM ignores other managers", func(s *Settings, _ *Want) string {
		return unless(!s.IgnoreOthers,
			"where there is another manager, both write tables; "+s.advise("ignore_other_sm", "FALSE", true))
	}},
	{MKeyGuards, health.Critical, "Switches answer only OpenSM", func(s *Settings, _ *Want) string {
		return unless(s.MKey == 0 || s.MKeyLevel < 2,
			fmt.Sprintf("at m_key_protection_level %d switches do not answer questions without the M_Key, and forsd reads tables and ports without it; ", s.MKeyLevel)+
				s.advise("m_key_protection_level", "1", true))
	}},
	{LogRoutingSlow, health.Degraded, "OpenSM's routing dumps slow down every sweep", func(s *Settings, _ *Want) string {
		return unless(s.LogFlags&logRouting == 0,
			fmt.Sprintf("log flag 0x40 of 0x%02x adds about 200 ms to every sweep; ", s.LogFlags)+s.advise("log_flags", "0x03", false))
	}},
	{LogInfoOff, health.Info, "OpenSM does not log which engine it used", func(s *Settings, _ *Want) string {
		return unless(s.LogFlags&logInfo != 0,
			fmt.Sprintf("the log flags 0x%02x lack 0x02, so a fallback to another engine is not in the log; ", s.LogFlags)+
				s.advise("log_flags", fmt.Sprintf("0x%02x", s.LogFlags|logInfo|1), false))
	}},
	{AdaptiveRoutingOn, health.Degraded, "Switches choose ports by themselves", func(s *Settings, _ *Want) string {
		const why = "with adaptive routing a switch sends by the port that is least busy, not by the one in its table, so that two transfers of a phase may share a cable; "
		engine := slices.ContainsFunc(s.engines(), func(e string) bool { return strings.HasPrefix(e, "ar_") })
		switch {
		case on(s.AdaptiveRouting):
			return fmt.Sprintf("ar_mode is %s: ", s.AdaptiveRouting) + why + s.advise("ar_mode", "0", true)
		case engine:
			return fmt.Sprintf("the routing engine is %q: ", s.RoutingEngine) + why + s.advise("routing_engine", s.bestEngines(), true)
		case slices.Contains(words(s.EventPlugins), "armgr"):
			return "the Adaptive Routing Manager (armgr) is loaded: " + why + "take it out of event_plugin_name and restart OpenSM"
		}
		return ""
	}},
	{ShieldOn, health.Degraded, "Switches route around dead cables by themselves", func(s *Settings, _ *Want) string {
		return unless(!on(s.Shield),
			fmt.Sprintf("shield_mode is %s: while a cable is dead, switches send by other ports than their tables have, so that two transfers of a phase may share a cable; ", s.Shield)+
				s.advise("shield_mode", "0", true))
	}},
	{SharpOn, health.Info, "SHARP is enabled", func(s *Settings, _ *Want) string {
		return unless(!on(s.Sharp),
			fmt.Sprintf("sharp_enabled is %s: reductions in the network take cables that the plan knows nothing of; run none in the midst of an exchange", s.Sharp))
	}},
	{RestartNeeded, health.Info, "opensm.conf is newer than the running OpenSM", func(s *Settings, _ *Want) string {
		return unless(s.Since.IsZero() || s.ConfMod.Before(s.Since.Add(time.Second)),
			fmt.Sprintf("%s was changed after OpenSM was started, and most settings are read at its start only: restart OpenSM, then look again", s.Conf))
	}},
	{SettingsUnseen, health.Info, "not all settings could be read", func(s *Settings, _ *Want) string {
		return unless(s.Unseen == "",
			"not readable: "+s.Unseen+"; run as root to see it")
	}},
}

// on reports whether a setting is present and not "no".
func on(value string) bool {
	switch strings.ToLower(value) {
	case "", "0", "false", "off", "no", "none":
		return false
	}
	return true
}

const (
	noFallback = "no_fallback" // keeps OpenSM from engines of its own
	fallback   = "updn"        // the engine that goes up and then down, as forsd does
)

// FallsBack reports whether OpenSM continues with its own engine when the table file is
// missing.
func (s *Settings) FallsBack() bool { return !slices.Contains(s.engines(), noFallback) }

// bestEngines returns what routing_engine should be.
func (s *Settings) bestEngines() string {
	if s.PluginLoaded() {
		return PluginEngine + "," + FileEngine + "," + fallback
	}
	return FileEngine + "," + fallback
}

// optionsWith returns the plugin's options with another socket.
func (s *Settings) optionsWith(socket string) string {
	options := slices.DeleteFunc(words(s.PluginOptions), func(o string) bool { return strings.HasPrefix(o, "socket=") })
	return strings.Join(append([]string{"socket=" + socket}, options...), " ")
}

// unless returns a finding, or "" if the setting is right.
func unless(right bool, finding string) string {
	if right {
		return ""
	}
	return finding
}

// checkLMC compares the number of LIDs of a host with the number of lanes.
func checkLMC(s *Settings, want *Want) string {
	if want.Lanes <= 1<<s.LMC {
		return ""
	}
	enough := 0
	for want.Lanes > 1<<enough && enough < maxLMC {
		enough++
	}
	few := fmt.Sprintf("LMC %d gives a host %d LIDs for %d lanes: plans take more phases, and tables change with every plan; ", s.LMC, 1<<s.LMC, want.Lanes)
	if int(s.LMC) == maxLMC {
		return few + fmt.Sprintf("%d is the most there is: use fewer spines, or fewer parallel cables", maxLMC)
	}
	return few + s.advise("lmc", fmt.Sprint(enough), true)
}

// advise says how to give a key a value, and when that takes effect.
func (s *Settings) advise(key, value string, restart bool) string {
	var b strings.Builder
	switch from := s.origins[key]; {
	case from.option != "":
		fmt.Fprintf(&b, "take %s off OpenSM's command line, put the line %q into %s", from.option, key+" "+value, s.Conf)
	case from.env != "":
		fmt.Fprintf(&b, "take %s out of OpenSM's environment, put the line %q into %s", from.env, key+" "+value, s.Conf)
	case from.line > 0:
		fmt.Fprintf(&b, "make line %d of %s read %q", from.line, s.Conf, key+" "+value)
	default:
		fmt.Fprintf(&b, "put the line %q into %s", key+" "+value, s.Conf)
	}
	if restart || s.origins[key].option != "" {
		b.WriteString(" and restart OpenSM")
	} else {
		b.WriteString(" and send OpenSM a SIGHUP")
	}
	return b.String()
}

// samePath compares paths, through symbolic links where they exist.
func samePath(a, b string) bool {
	both := []*string{&a, &b}
	for _, p := range both {
		if target, err := filepath.EvalSymlinks(*p); err == nil {
			*p = target
		}
	}
	return filepath.Clean(a) == filepath.Clean(b)
}

// The codes that a Watcher reports.
const (
	DumpMissing    = "dump-missing"    // opensm-subnet.lst is missing
	DumpIncomplete = "dump-incomplete" // it stays half written
	DumpRefused    = "dump-refused"    // it cannot be read or does not parse
	GUID2LIDStale  = "guid2lid-stale"  // guid2lid contradicts the dump or cannot be read
	WatchDegraded  = "watch-degraded"  // changes are found by polling alone
)

// The codes of findings in the log; see LogEvent.Effect.
const (
	EngineFallback = "opensm-fallback"            // another engine made the tables
	FileRejected   = "opensm-table-file-rejected" // OpenSM could not use the table file
	NoTables       = "opensm-routing-failed"      // no engine gave tables
	SweepErrors    = "opensm-sweep-failed"        // a sweep ended in errors
	Standby        = "opensm-standby"             // another manager is the master
)

// The codes of findings.
const (
	UcastCacheOn        = "ucast-cache-on"
	FallbackMissing     = "fallback-missing" // no engine takes over while forsd is away
	RoutingEngineWrong  = "routing-engine-wrong"
	PluginEngineUnknown = "plugin-engine-unknown" // an engine of a plugin that is not loaded
	PluginEngineMissing = "plugin-engine-missing" // the plugin is loaded, but not as an engine
	PluginSocketWrong   = "plugin-socket-wrong"   // it looks for forsd elsewhere
	LFTsFileMissing     = "lfts-file-missing"     // OpenSM is given no table file
	RootFileWrong       = "root-guid-file-wrong"  // the engine updn looks for its beginning elsewhere
	LFTsFileWrong       = "lfts-file-wrong"       // it is given another one than forsd writes
	LMCTooSmall         = "lmc-too-small"
	LMCWrong            = "lmc-wrong"
	LMCOnSwitches       = "lmc-esp0-on"
	LIDMatrixFileSet    = "lid-matrix-file-set"
	DumpDirWrong        = "dump-dir-wrong"
	CacheDirWrong       = "cache-dir-wrong"
	SweepOnTrapOff      = "sweep-on-trap-off"
	SweepIntervalZero   = "sweep-interval-zero"
	ReassignLIDsOn      = "reassign-lids-on"
	HonorGUID2LIDOff    = "honor-guid2lid-off"
	SMInactive          = "sm-inactive"
	OthersIgnored       = "other-managers-ignored"
	MKeyGuards          = "m-key-guards"
	LogRoutingSlow      = "log-flag-routing-slow"
	LogInfoOff          = "log-flag-info-off"
	AdaptiveRoutingOn   = "adaptive-routing-on"
	ShieldOn            = "shield-on"
	SharpOn             = "sharp-on"
	RestartNeeded       = "opensm-restart-needed"
	SettingsUnseen      = "opensm-settings-unseen"
)

// Kinds lists every kind of warning of this package, for a health.Tracker: those
// of a Watcher, of the log, and of Settings.Check.
func Kinds() []health.Warnable {
	kinds := []health.Warnable{
		{Code: DumpMissing, Severity: health.Critical, Title: "OpenSM has written no dump"},
		{Code: DumpIncomplete, Severity: health.Critical, Title: "OpenSM's dump stays half written"},
		{Code: DumpRefused, Severity: health.Critical, Title: "OpenSM's dump cannot be used"},
		{Code: GUID2LIDStale, Severity: health.Degraded, Title: "OpenSM's guid2lid cannot be used"},
		{Code: WatchDegraded, Severity: health.Degraded, Title: "changes are found by polling alone"},
		{Code: EngineFallback, Severity: health.Critical, Title: "OpenSM has fallen back to another routing engine"},
		{Code: FileRejected, Severity: health.Critical, Title: "OpenSM has rejected the table file"},
		{Code: NoTables, Severity: health.Critical, Title: "OpenSM's routing has failed: old tables stay in force"},
		{Code: SweepErrors, Severity: health.Degraded, Title: "OpenSM's sweep has ended in errors"},
		{Code: Standby, Severity: health.Critical, Title: "another subnet manager is the master"},
	}
	for _, r := range rules {
		kinds = append(kinds, health.Warnable{Code: r.code, Severity: r.severity, Title: r.title})
	}
	return kinds
}
