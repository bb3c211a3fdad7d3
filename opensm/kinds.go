package opensm

import "github.com/forsd/forsd/internal/health"

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
