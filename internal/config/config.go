// Package config reads forsd's configuration file.
//
// A file says only what differs from Default; every key has a default that
// works beside Debian's OpenSM. Reading a file (types, unknown keys) and
// judging its values (ranges, what must fit together) are apart, and both
// report everything that is wrong at once, each with its line.
package config

import (
	"os"
	"regexp"
	"time"

	"github.com/forsd/forsd/internal/cablehealth"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/planner"
)

// Version is the version of the configuration file that this package reads.
const Version = 1

// DefaultPath is where forsd looks for its configuration.
const DefaultPath = "/etc/forsd/forsd.yaml"

// Config is the whole configuration. The tag yaml of a field is its key in the file, and one
// lists the words that may be its value; what has the tag live may change while forsd runs,
// see Config.With.
type Config struct {
	Version    int      `yaml:"version"`                 // mandatory, Version
	Mode       Mode     `yaml:"mode" one:"manage watch"` // whether forsd does anything to OpenSM
	StateDir   string   `yaml:"state_dir"`               // baseline, epochs: what survives a reboot
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

// OpenSM is where the subnet manager's files are and how it is reached.
type OpenSM struct {
	DumpDir         string        `yaml:"dump_dir"`                 // holds opensm-subnet.lst
	CacheDir        string        `yaml:"cache_dir"`                // holds guid2lid
	Conf            string        `yaml:"conf"`                     // opensm.conf; it may be absent
	Log             string        `yaml:"log"`                      // "" finds it by opensm.conf and the command line
	LFTsFile        string        `yaml:"lfts_file"`                // the table file that forsd writes and OpenSM reads
	RootFile        string        `yaml:"root_guid_file"`           // tells OpenSM's own engine where to begin while forsd is away
	TableComments   bool          `yaml:"table_comments"`           // write each LID's port GUID as a comment
	PIDFile         string        `yaml:"pid_file"`                 // "" asks systemd for Unit, then searches /proc
	Unit            string        `yaml:"unit"`                     // systemd unit of OpenSM, a glob pattern
	Umad            UmadPort      `yaml:"umad"`                     // the local port by which tables are read
	DumpCommand     []string      `yaml:"dump_command"`             // prints the tables that the switches hold, where Umad cannot
	SweepTimeout    time.Duration `yaml:"sweep_timeout" live:"yes"` // signal sent to new dump seen
	ReadbackTimeout time.Duration `yaml:"readback_timeout"`         // of either way of reading tables
	LMC             LMC           `yaml:"lmc"`
	Plugin          Plugin        `yaml:"plugin"`
	Traps           Traps         `yaml:"traps" one:"auto off"` // whether the switch that a trap names is read at once
	// The three for an OpenSM on another host. DiscoverCommand prints the fabric;
	// empty means that OpenSM runs here. InstallCommand takes the table file to it;
	// empty means that nobody does, and forsd gives advice.
	DiscoverCommand []string      `yaml:"discover_command"`
	DiscoverEvery   time.Duration `yaml:"discover_every"` // at the latest, when no trap comes
	InstallCommand  []string      `yaml:"install_command"`
}

// Remote reports whether OpenSM runs on another host.
func (c *OpenSM) Remote() bool { return len(c.DiscoverCommand) > 0 }

// Finder finds the OpenSM next door.
func (c *OpenSM) Finder() opensm.Finder {
	if c.PIDFile != "" {
		return opensm.PIDFile{Path: c.PIDFile}
	}
	return opensm.FirstOf{opensm.Unit{Pattern: c.Unit}, opensm.Search{}}
}

// Want is what forsd needs of OpenSM's settings on a fabric of so many lanes, 0 where their
// number is not known yet.
func (c *OpenSM) Want(lanes int) opensm.Want {
	w := opensm.Want{LFTsFile: c.LFTsFile, RootFile: c.RootFile, DumpDir: c.DumpDir, CacheDir: c.CacheDir, Lanes: lanes, LMC: int(c.LMC)}
	if c.Plugin.Enabled != EnabledOff {
		w.Socket = c.Plugin.Socket
	}
	return w
}

// Plugin is forsd's end of the socket of OpenSM's plugin. Where the plugin is
// connected, it tells what happens and asks for the tables; else files do.
type Plugin struct {
	Enabled Enabled `yaml:"enabled" one:"auto on off"` // auto listens, and warns that the plugin is not connected where opensm.conf names it
	Socket  string  `yaml:"socket"`
}

// API is where the HTTP interface listens.
type API struct {
	Socket      string      `yaml:"socket"`
	SocketMode  os.FileMode `yaml:"socket_mode"`
	Listen      string      `yaml:"listen"`        // TCP address as host:port, "" if none: without TLS, for reading
	Names       []string    `yaml:"names"`         // by which it may be asked there, besides addresses and the machine's name
	ReadOverTCP bool        `yaml:"read_over_tcp"` // whether GET is answered there
	TLS         TLS         `yaml:"tls"`

	// Who may do what: users, groups behind @, certificates behind cn: and ou:.
	Administrators []string `yaml:"administrators"`
	Operators      []string `yaml:"operators"`
	Viewers        []string `yaml:"viewers"`
}

// TLS is where the HTTP interface listens with TLS, and by which files.
type TLS struct {
	Listen      string `yaml:"listen"` // host:port, "" if none
	Certificate string `yaml:"certificate"`
	Key         string `yaml:"key"`
	ClientCA    string `yaml:"client_ca"` // whose certificates clients may show; "" if none
	Revoked     string `yaml:"revoked"`   // a list of revoked certificates, "" if none
}

// Peer is the forsd beside another subnet manager of the same fabric. The one
// whose manager is the master leads; the other one follows it.
type Peer struct {
	Address string        `yaml:"address"` // https://host:port, or the path of its socket; "" if none
	Timeout time.Duration `yaml:"timeout"` // what a takeover waits for its state
}

// Planning is how plans are made.
type Planning struct {
	Engine  Engine         `yaml:"engine" one:"auto algorithm exact ilp"`
	LIDs    planner.LIDs   `yaml:"lids"`               // of each server that plans use: auto, lanes, or a number
	Exclude *regexp.Regexp `yaml:"exclude" live:"yes"` // host descriptions that take no part; nil excludes none
	Roles   Roles          `yaml:"roles" live:"yes"`
	// OtherFabrics is what to do with a fabric that is not a fat tree.
	OtherFabrics OtherFabrics `yaml:"other_fabrics" one:"refuse liquid" live:"yes"`
	// MaxUnreachable is the share of the ordered pairs of servers that a plan may
	// leave out, 0 to 1.
	MaxUnreachable float64 `yaml:"max_unreachable"`
	// KeepPrice is the share of phases by which a plan for base LIDs may be longer so that
	// base LIDs keep their lanes, from 0 to 1.
	KeepPrice float64 `yaml:"keep_price"`
}

// Jobs says what exchanges among some of the servers get.
type Jobs struct {
	// BaseLIDs says when the base LIDs of a job's hosts are routed by the job's own plan.
	BaseLIDs planner.Policy `yaml:"base_lids" one:"auto never always"`
	// OwnLanes gives every job lanes that no other job uses, also where it does not ask.
	OwnLanes bool `yaml:"own_lanes" live:"yes"`
}

// Drains says how parts of the fabric are taken out to be worked on.
type Drains struct {
	// Grace is how long an exchange may take that has begun by the plan before: a leaf is
	// not safe to pull earlier.
	Grace time.Duration `yaml:"grace"`
}

// Roles are patterns of the descriptions of hosts that are no compute nodes; nil matches
// none.
type Roles struct {
	Aggregation *regexp.Regexp `yaml:"aggregation"`
	Gateway     *regexp.Regexp `yaml:"gateway"`
	Storage     *regexp.Regexp `yaml:"storage"`
	Management  *regexp.Regexp `yaml:"management"`
}

// Damping keeps a cable that bounces out of the plan. After Flaps failures
// within Window it stays out for HoldDown, and for twice as long each further
// time, up to MaxHoldDown.
type Damping struct {
	HoldDown    time.Duration `yaml:"hold_down"`
	MaxHoldDown time.Duration `yaml:"max_hold_down"`
	Flaps       int           `yaml:"flaps"`
	Window      time.Duration `yaml:"window"`
}

// Cables says when a cable counts as one that is not well, and what is done about it.
type Cables struct {
	cablehealth.Settings
	Every   time.Duration `yaml:"every"`    // a round over the counters of all switches
	MaxCost int           `yaml:"max_cost"` // phases that all isolated cables together may cost
}

// Safety tells a mass failure from a subnet that is discovered by half: when
// more than MaxLoss of the servers (a share, 0 to 1) vanish at once, that must
// stay so for Confirm before it is believed.
type Safety struct {
	MaxLoss float64       `yaml:"max_loss"`
	Confirm time.Duration `yaml:"confirm"`
}

// Retry spaces the attempts of whatever failed: the first comes after First,
// each further one after twice the time, up to Max.
type Retry struct {
	First time.Duration `yaml:"first"`
	Max   time.Duration `yaml:"max"`
}

// History is how much of what has happened is kept in the state directory.
type History struct {
	MaxAge time.Duration `yaml:"max_age"`
	MaxMB  int           `yaml:"max_mb"` // of the database
}

// Webhook is the web service that is told of warnings.
type Webhook struct {
	URL        string          `yaml:"url"`                                   // or the path of a file that holds it; "" if none
	SecretFile string          `yaml:"secret_file"`                           // the key of the signatures; "" if none
	Template   string          `yaml:"template"`                              // a name of webhook.Templates, or the path of a file
	Severity   health.Severity `yaml:"severity" one:"info degraded critical"` // the least that is sent
}

// Log is what is logged and how.
type Log struct {
	Level  LogLevel  `yaml:"level" one:"debug info warn error" live:"yes"`
	Format LogFormat `yaml:"format" one:"auto json console journal"`
}

// Default returns the configuration of an empty file, new at each call.
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
