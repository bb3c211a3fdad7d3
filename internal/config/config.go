// Package config reads forsd's configuration file, and again while forsd runs.
//
// A file contains only the differences from Default; every key has a default that works with
// Debian's OpenSM. Reading a file (types, unknown keys) and checking its values (ranges,
// combinations) are separate steps. Both report all errors together, each with its line.
package config

import (
	"os"
	"regexp"
	"time"

	"github.com/forsd/forsd/internal/access"
	"github.com/forsd/forsd/internal/cablehealth"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/planner"
)

// Version is the version of the configuration file that this package reads.
const Version = 1

// DefaultPath is where forsd looks for its configuration.
const DefaultPath = "/etc/forsd/forsd.yaml"

// Config is the whole configuration. The tag yaml of a field is its key in the file, the tag one
// lists its permitted words, and the tag is says what it must be (judge.value). Fields with the
// tag live may change while forsd runs; see Config.With.
type Config struct {
	Version    int      `yaml:"version"`                 // mandatory, Version
	Fabric     string   `yaml:"fabric"`                  // its name, for those who watch several
	Mode       Mode     `yaml:"mode" one:"manage watch"` // whether forsd controls OpenSM
	StateDir   string   `yaml:"state_dir" is:"dir"`      // baseline, epochs: the data that survive a reboot
	KeepEpochs int      `yaml:"keep_epochs"`             // published plans kept for rollback
	OpenSM     OpenSM   `yaml:"opensm"`
	API        API      `yaml:"api"`
	Peer       Peer     `yaml:"peer"`
	Planning   Planning `yaml:"planning"`
	Jobs       Jobs     `yaml:"jobs"`
	Drains     Drains   `yaml:"drains"`
	Damping    Damping  `yaml:"damping" live:"yes"`
	Cables     Cables   `yaml:"cables"`
	Safety     Safety   `yaml:"safety" live:"yes"`
	Retry      Retry    `yaml:"retry" live:"yes"`
	History    History  `yaml:"history"`
	Webhook    Webhook  `yaml:"webhook"`
	Log        Log      `yaml:"log"`
}

// OpenSM locates the subnet manager and its files.
type OpenSM struct {
	DumpDir         string        `yaml:"dump_dir" is:"dir"`          // holds opensm-subnet.lst
	CacheDir        string        `yaml:"cache_dir" is:"dir"`         // holds guid2lid
	Conf            string        `yaml:"conf" is:"file"`             // opensm.conf; it may be absent
	Log             string        `yaml:"log" is:"file or none"`      // "" finds it by opensm.conf and the command line
	LFTsFile        string        `yaml:"lfts_file" is:"file"`        // the table file that forsd writes and OpenSM reads
	RootFile        string        `yaml:"root_guid_file"`             // tells OpenSM's own engine where to begin without forsd
	TableComments   bool          `yaml:"table_comments"`             // write each LID's port GUID as a comment
	PIDFile         string        `yaml:"pid_file" is:"file or none"` // "" asks systemd for Unit, then searches /proc
	Unit            string        `yaml:"unit"`                       // systemd unit of OpenSM, a glob pattern
	Umad            UmadPort      `yaml:"umad"`                       // the local port for reading tables
	DumpCommand     []string      `yaml:"dump_command"`               // prints the tables in the switches, if Umad cannot read them
	SweepTimeout    time.Duration `yaml:"sweep_timeout" live:"yes"`   // from the signal to a new dump
	ReadbackTimeout time.Duration `yaml:"readback_timeout"`           // for both ways of reading tables
	LMC             LMC           `yaml:"lmc"`
	Plugin          Plugin        `yaml:"plugin"`
	Traps           Traps         `yaml:"traps" one:"auto off"` // whether to read the switch in a trap immediately
	// The next three settings are for an OpenSM on another host. DiscoverCommand prints the
	// fabric; empty means that OpenSM runs on this host. InstallCommand copies the table file
	// to OpenSM; if it is empty, forsd only gives advice.
	DiscoverCommand []string      `yaml:"discover_command"`
	DiscoverEvery   time.Duration `yaml:"discover_every"` // maximum interval if no trap comes
	InstallCommand  []string      `yaml:"install_command"`
}

// Remote reports whether OpenSM runs on another host.
func (c *OpenSM) Remote() bool { return len(c.DiscoverCommand) > 0 }

// Finder returns a finder for the OpenSM on this host.
func (c *OpenSM) Finder() opensm.Finder {
	if c.PIDFile != "" {
		return opensm.PIDFile{Path: c.PIDFile}
	}
	return opensm.FirstOf{opensm.Unit{Pattern: c.Unit}, opensm.Search{}}
}

// Want returns forsd's requirements for OpenSM's settings on a fabric with the given number of
// lanes. 0 means that the number is not yet known.
func (c *OpenSM) Want(lanes int) opensm.Want {
	w := opensm.Want{LFTsFile: c.LFTsFile, RootFile: c.RootFile, DumpDir: c.DumpDir, CacheDir: c.CacheDir, Lanes: lanes, LMC: int(c.LMC)}
	if c.Plugin.Enabled != EnabledOff {
		w.Socket = c.Plugin.Socket
	}
	return w
}

// Plugin configures the socket for OpenSM's plugin. A connected plugin reports events and
// requests the tables; without it, forsd uses files.
type Plugin struct {
	Enabled Enabled `yaml:"enabled" one:"auto on off"` // auto listens, and warns if opensm.conf names the plugin but it is not connected
	Socket  string  `yaml:"socket" is:"socket"`
}

// API configures the HTTP interface.
type API struct {
	Socket      string      `yaml:"socket" is:"socket"`
	SocketMode  os.FileMode `yaml:"socket_mode"`
	Listen      string      `yaml:"listen" is:"address"` // TCP address as host:port, without TLS, for reading; may be empty
	Names       []string    `yaml:"names"`               // host names accepted there, besides addresses and the machine's name
	ReadOverTCP bool        `yaml:"read_over_tcp"`       // whether to answer GET there
	TLS         TLS         `yaml:"tls"`

	// The permissions: users, groups after @, certificates after cn: and ou:.
	Administrators []string `yaml:"administrators"`
	Operators      []string `yaml:"operators"`
	Viewers        []string `yaml:"viewers"`
}

// TLS configures the HTTP interface with TLS.
type TLS struct {
	Listen string `yaml:"listen" is:"address"` // host:port; may be empty
	access.Files
}

// Peer is the forsd of another subnet manager on the same fabric. The forsd whose manager is
// the master leads, and the other one follows.
type Peer struct {
	Address string        `yaml:"address"` // https://host:port, or the path of its socket; may be empty
	Timeout time.Duration `yaml:"timeout"` // how long a takeover waits for the peer's state
}

// Planning configures how plans are made.
type Planning struct {
	Engine  Engine         `yaml:"engine" one:"auto algorithm exact ilp"`
	LIDs    planner.LIDs   `yaml:"lids"`               // LIDs per server in plans: auto, lanes, or a number
	Exclude *regexp.Regexp `yaml:"exclude" live:"yes"` // descriptions of excluded hosts; nil excludes none
	Roles   Roles          `yaml:"roles" live:"yes"`
	// Exchange divides the servers into groups; zero is one exchange of all.
	Exchange Exchange `yaml:"exchange" live:"yes"`
	// OtherFabrics is the treatment of a fabric that is not a fat tree.
	OtherFabrics OtherFabrics `yaml:"other_fabrics" one:"refuse liquid" live:"yes"`
	// MaxUnreachable is the share of the ordered pairs of servers that a plan may leave out,
	// from 0 to 1.
	MaxUnreachable float64 `yaml:"max_unreachable"`
	// KeepPrice limits how much longer a plan for base LIDs may be so that base LIDs keep their
	// lanes, as a share of its phases from 0 to 1.
	KeepPrice float64 `yaml:"keep_price"`
}

// Jobs configures the exchanges among some of the servers.
type Jobs struct {
	// BaseLIDs decides when a job's own plan routes the base LIDs of its hosts.
	BaseLIDs planner.Policy `yaml:"base_lids" one:"auto never always"`
	// OwnLanes gives every job exclusive lanes, even if it does not request them.
	OwnLanes bool `yaml:"own_lanes" live:"yes"`
}

// Drains configures how parts of the fabric are drained for maintenance.
type Drains struct {
	// Grace is the maximum duration of an exchange that began with the previous plan. A leaf is
	// not safe to pull until it has passed.
	Grace time.Duration `yaml:"grace"`
}

// Roles are patterns for the descriptions of hosts that are not compute nodes. A nil pattern
// matches nothing.
type Roles struct {
	Aggregation *regexp.Regexp `yaml:"aggregation"`
	Gateway     *regexp.Regexp `yaml:"gateway"`
	Storage     *regexp.Regexp `yaml:"storage"`
	Management  *regexp.Regexp `yaml:"management"`
}

// Damping keeps an unstable cable out of the plan. After Flaps failures within Window it stays
// out for HoldDown, and for twice as long after each further failure, up to MaxHoldDown.
type Damping struct {
	HoldDown    time.Duration `yaml:"hold_down"`
	MaxHoldDown time.Duration `yaml:"max_hold_down"`
	Flaps       int           `yaml:"flaps"`
	Window      time.Duration `yaml:"window"`
}

// Cables defines when a cable is faulty, and the response to faulty cables.
type Cables struct {
	cablehealth.Settings
	Every   time.Duration `yaml:"every"`               // interval between rounds of reading the counters of all switches
	MaxCost int           `yaml:"max_cost" is:"count"` // maximum number of phases that all isolated cables together may cost
}

// Safety distinguishes a mass failure from an incomplete discovery. If more than MaxLoss of the
// servers (a share, 0 to 1) vanish together, forsd believes it only after it has lasted for
// Confirm.
type Safety struct {
	MaxLoss float64       `yaml:"max_loss"`
	Confirm time.Duration `yaml:"confirm"`
}

// Retry is the schedule for retrying failed operations: the first retry comes after First, and
// each further one after twice the previous delay, up to Max.
type Retry struct {
	First time.Duration `yaml:"first"`
	Max   time.Duration `yaml:"max"`
}

// History limits the history in the state directory.
type History struct {
	MaxAge time.Duration `yaml:"max_age"`
	MaxMB  int           `yaml:"max_mb"` // size of the database
}

// Webhook configures the web service that receives warnings.
type Webhook struct {
	URL        string          `yaml:"url"`                                   // or the path of a file that contains it; may be empty
	SecretFile string          `yaml:"secret_file" is:"file or none"`         // the key for signatures; may be empty
	Template   string          `yaml:"template"`                              // a name in webhook.Templates, or the path of a file
	Severity   health.Severity `yaml:"severity" one:"info degraded critical"` // the lowest severity that is sent
}

// Log configures logging.
type Log struct {
	Level  LogLevel  `yaml:"level" one:"debug info warn error" live:"yes"`
	Format LogFormat `yaml:"format" one:"auto json console journal"`
}

// Default returns the configuration of an empty file. Each call returns a new value.
func Default() *Config {
	return &Config{
		Version:    Version,
		Mode:       ModeManage,
		StateDir:   "/var/lib/forsd",
		KeepEpochs: 20,
		OpenSM: OpenSM{
			DumpDir:         "/var/log",
			CacheDir:        "/var/cache/opensm",
			Conf:            "/etc/opensm/opensm.conf",
			LFTsFile:        "/var/lib/forsd/opensm/lfts.dump",
			RootFile:        "/run/forsd/updn.root",
			Unit:            "opensm@*.service",
			DumpCommand:     []string{"dump_fts", "-n"},
			SweepTimeout:    10 * time.Second,
			ReadbackTimeout: 30 * time.Second,
			LMC:             AutoLMC,
			Plugin:          Plugin{Enabled: EnabledAuto, Socket: "/run/forsd/opensm.sock"},
			Traps:           TrapsAuto,
			DiscoverCommand: []string{},
			DiscoverEvery:   10 * time.Second,
			InstallCommand:  []string{},
		},
		API: API{
			Socket:     "/run/forsd/forsd.sock",
			SocketMode: 0o660,
			Names:      []string{},

			Administrators: []string{}, Operators: []string{}, Viewers: []string{},
			ReadOverTCP: true,
		},
		Peer: Peer{Timeout: time.Second},
		Planning: Planning{
			Engine:       EngineAuto,
			LIDs:         planner.AutoLIDs,
			OtherFabrics: OtherRefuse, MaxUnreachable: planner.DefaultMaxUnreachable, KeepPrice: planner.DefaultKeepPrice,
		},
		Jobs:   Jobs{BaseLIDs: planner.RouteAuto},
		Drains: Drains{Grace: 10 * time.Second},
		Damping: Damping{
			HoldDown:    10 * time.Second,
			MaxHoldDown: 10 * time.Minute,
			Flaps:       3,
			Window:      2 * time.Minute,
		},
		Cables:  Cables{Settings: cablehealth.Defaults(), Every: time.Minute},
		Safety:  Safety{MaxLoss: 0.5, Confirm: 30 * time.Second},
		Retry:   Retry{First: time.Second, Max: time.Minute},
		History: History{MaxAge: 90 * 24 * time.Hour, MaxMB: 256},
		Webhook: Webhook{Template: "json", Severity: health.Degraded},
		Log:     Log{Level: LevelInfo, Format: FormatAuto},
	}
}
