package config

import (
	"fmt"
	"regexp"
	"strconv"
)

// Engine is the planner to use.
type Engine string

// The engines. EngineAuto takes the first that yields the shortest plan.
const (
	EngineAuto      Engine = "auto"
	EngineAlgorithm Engine = "algorithm"
	EngineExact     Engine = "exact"
	EngineILP       Engine = "ilp"
)

// Mode is what forsd does beside OpenSM.
type Mode string

// The modes. In ModeWatch forsd plans and warns, and neither writes tables nor signals
// OpenSM nor serves its plugin.
const (
	ModeManage Mode = "manage"
	ModeWatch  Mode = "watch"
)

// LogLevel is the least severe level that is logged.
type LogLevel string

// The levels, from the least severe.
const (
	LevelDebug LogLevel = "debug"
	LevelInfo  LogLevel = "info"
	LevelWarn  LogLevel = "warn"
	LevelError LogLevel = "error"
)

// LogFormat is the form of the log.
type LogFormat string

// The formats. FormatAuto is FormatConsole on a terminal, FormatJournal under systemd, else
// FormatJSON.
const (
	FormatAuto    LogFormat = "auto"
	FormatJournal LogFormat = "journal"
	FormatJSON    LogFormat = "json"
	FormatConsole LogFormat = "console"
)

// Enabled is whether something is used.
type Enabled string

// The choices. EnabledAuto uses what is there, and EnabledOn misses what is not.
const (
	EnabledAuto Enabled = "auto"
	EnabledOn   Enabled = "on"
	EnabledOff  Enabled = "off"
)

// Traps is where traps come from.
type Traps string

// The sources. TrapsAuto takes them from OpenSM's plugin, and without one from
// the subnet administrator, by a subscription.
const (
	TrapsAuto Traps = "auto"
	TrapsOff  Traps = "off"
)

// OtherFabrics is what to do with a fabric that is not a fat tree.
type OtherFabrics string

// The choices. OtherRefuse keeps the plan in force and says so; OtherLiquid schedules
// exchanges on the routes that OpenSM has, and leaves the tables alone.
const (
	OtherRefuse OtherFabrics = "refuse"
	OtherLiquid OtherFabrics = "liquid"
)

// LMC is the LID mask control of the host ports, 0 to MaxLMC, or AutoLMC.
type LMC int8

const (
	// AutoLMC takes the LMC from OpenSM's guid2lid, else from its settings.
	AutoLMC LMC = -1
	// MaxLMC is the largest LMC of InfiniBand.
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

// String prints the LMC as the file has it.
func (l LMC) String() string {
	if l == AutoLMC {
		return "auto"
	}
	return strconv.Itoa(int(l))
}

// UmadPort is a local InfiniBand port as device or device:port, "" for the one
// that is in the fabric, or UmadOff.
type UmadPort string

// UmadOff leaves the reading of tables to the command.
const UmadOff UmadPort = "off"

var umadPort = regexp.MustCompile(`^[A-Za-z0-9_.-]+(:[1-9][0-9]{0,2})?$`)

// UnmarshalText accepts auto, off, and the names of ports.
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
