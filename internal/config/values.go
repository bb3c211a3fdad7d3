package config

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/forsd/forsd/planner"
)

// Engine names a planner.
type Engine string

// The engines. EngineAuto uses the first engine that yields the shortest plan.
const (
	EngineAuto      Engine = "auto"
	EngineAlgorithm Engine = "algorithm"
	EngineExact     Engine = "exact"
	EngineILP       Engine = "ilp"
)

// Mode is forsd's role next to OpenSM.
type Mode string

// The modes. In ModeWatch forsd plans and warns, but does not write tables, signal OpenSM, or
// serve its plugin.
const (
	ModeManage Mode = "manage"
	ModeWatch  Mode = "watch"
)

// Watches reports whether forsd only watches.
func (c *Config) Watches() bool { return c.Mode == ModeWatch }

// LogLevel is the least severe level that is logged.
type LogLevel string

// The levels, from the least severe.
const (
	LevelDebug LogLevel = "debug"
	LevelInfo  LogLevel = "info"
	LevelWarn  LogLevel = "warn"
	LevelError LogLevel = "error"
)

// LogFormat is the format of the log.
type LogFormat string

// The formats. FormatAuto is FormatConsole on a terminal, FormatJournal under systemd, and
// FormatJSON otherwise.
const (
	FormatAuto    LogFormat = "auto"
	FormatJournal LogFormat = "journal"
	FormatJSON    LogFormat = "json"
	FormatConsole LogFormat = "console"
)

// Enabled controls whether forsd uses an optional part.
type Enabled string

// The choices. EnabledAuto uses the part if present, and EnabledOn reports a missing part.
const (
	EnabledAuto Enabled = "auto"
	EnabledOn   Enabled = "on"
	EnabledOff  Enabled = "off"
)

// Traps is the source of traps.
type Traps string

// The sources. TrapsAuto uses OpenSM's plugin, or without one a subscription with the subnet
// administrator.
const (
	TrapsAuto Traps = "auto"
	TrapsOff  Traps = "off"
)

// OtherFabrics is the treatment of a fabric that is not a fat tree.
type OtherFabrics string

// The choices. OtherRefuse keeps the plan in force and reports this; OtherLiquid schedules
// exchanges on OpenSM's routes, and does not change the tables.
const (
	OtherRefuse OtherFabrics = "refuse"
	OtherLiquid OtherFabrics = "liquid"
)

// Exchange says which servers exchange data with each other.
type Exchange struct{ planner.Groups }

// UnmarshalText accepts all, rails, and the path of a file with groups, which it reads.
func (x *Exchange) UnmarshalText(text []byte) error {
	switch name := string(text); {
	case name == "all":
		*x = Exchange{}
	case name == "rails":
		*x = Exchange{planner.Groups{Rails: true}}
	case !filepath.IsAbs(name):
		return fmt.Errorf("%q is neither all, rails, nor an absolute path", text)
	default:
		data, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("has groups that cannot be read: %w", err)
		}
		groups, err := planner.ReadGroups(data)
		if err != nil {
			return fmt.Errorf("has groups that cannot be used: %s: %w", name, err)
		}
		*x = Exchange{groups}
	}
	return nil
}

// LMC is the LID mask control of the host ports, 0 to MaxLMC, or AutoLMC.
type LMC int8

const (
	// AutoLMC uses the LMC from OpenSM's guid2lid, or else from its settings.
	AutoLMC LMC = -1
	// MaxLMC is the largest LMC in InfiniBand.
	MaxLMC LMC = 7
)

// UnmarshalText accepts "auto" and the numbers 0 to MaxLMC.
func (l *LMC) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*l = AutoLMC
		return nil
	}
	v, err := strconv.ParseInt(string(text), 10, 8)
	if err != nil || v < 0 || v > int64(MaxLMC) {
		return fmt.Errorf("%q is neither auto nor a number from 0 to %d", text, MaxLMC)
	}
	*l = LMC(v)
	return nil
}

// String prints the LMC in the file's format.
func (l LMC) String() string {
	if l == AutoLMC {
		return "auto"
	}
	return strconv.Itoa(int(l))
}

// UmadPort is a local InfiniBand port as device or device:port, or UmadOff. The empty string
// selects the port that is in the fabric.
type UmadPort string

// UmadOff disables reading of tables through a port; the command reads them.
const UmadOff UmadPort = "off"

var umadPort = regexp.MustCompile(`^[A-Za-z0-9_.-]+(:[1-9][0-9]{0,2})?$`)

// UnmarshalText accepts auto, off, and port names.
func (p *UmadPort) UnmarshalText(text []byte) error {
	switch {
	case string(text) == "auto":
		*p = ""
	case umadPort.Match(text):
		*p = UmadPort(text)
	default:
		return fmt.Errorf("%q is neither auto, off, nor a port such as mlx5_0 or mlx5_0:1", text)
	}
	return nil
}
