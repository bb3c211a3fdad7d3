package opensm

import (
	"strconv"
	"strings"
)

// LogKind is the kind of a line of OpenSM's log.
type LogKind uint8

// The kinds of lines that matter to forsd.
const (
	SubnetUp          LogKind = iota + 1 // a sweep has ended well
	EngineUsed                           // tables were computed; Engine is the engine used
	TableFileRejected                    // OpenSM could not use the table file
	RoutingFailed                        // no engine gave tables: the old ones stay
	MasterEntered                        // OpenSM has become the master
	StandbyEntered                       // another manager is the master
	SweepFailed                          // errors during initialization
	OtherError                           // any other error
	TrapReceived                         // a switch reports that one of its links has changed; LID is the switch's
	TrapTold                             // OpenSM forwards the trap and sweeps; it ignores traps that it does not forward
)

var logKindNames = [...]string{"?", "subnet up", "engine used", "table file rejected", "routing failed",
	"master entered", "standby entered", "sweep failed", "other error", "trap received", "trap told"}

// String returns the kind in words.
func (k LogKind) String() string {
	if int(k) < len(logKindNames) {
		return logKindNames[k]
	}
	return "?"
}

// LogEvent is a line of the log that matters.
type LogEvent struct {
	Kind   LogKind
	Engine string // of EngineUsed, such as file or minhop
	LID    uint16 // of TrapReceived and TrapTold, the switch's own
	Text   string // the line from after "->" on
}

// Fallback reports whether OpenSM used an engine other than forsd's tables.
func (e LogEvent) Fallback() bool {
	return e.Kind == EngineUsed && e.Engine != FileEngine && e.Engine != PluginEngine
}

// Effect returns the warning that the event raises, "" if none, and those that it ends.
func (e LogEvent) Effect() (raise string, ends []string) {
	switch e.Kind {
	case SubnetUp:
		return "", []string{SweepErrors}
	case EngineUsed:
		if e.Fallback() {
			return EngineFallback, []string{NoTables}
		}
		return "", []string{EngineFallback, FileRejected, NoTables}
	case TableFileRejected:
		return FileRejected, nil
	case RoutingFailed:
		return NoTables, nil
	case MasterEntered:
		return "", []string{Standby}
	case StandbyEntered:
		return Standby, nil
	case SweepFailed:
		return SweepErrors, nil
	}
	return "", nil
}

// levelError in a line's level makes it an error; together with logInfo it is
// OpenSM's greeting (osm_log.h).
const levelError = 0x01

// ClassifyLog classifies a line of OpenSM's log; ok is false if it is irrelevant. A line
// reads "Nov 20 13:00:09 102117 [CECEA6C0] 0x01 -> text". With routing_engine
// file,no_fallback OpenSM logs at every start that it failed to set up the engine
// no_fallback, which is ignored.
func ClassifyLog(line string) (event LogEvent, ok bool) {
	level, text, ok := splitLog(line)
	if !ok {
		return LogEvent{}, false
	}
	event = LogEvent{Text: text}
	has := func(part string) bool { return strings.Contains(text, part) }
	switch {
	case has("SUBNET UP"):
		event.Kind = SubnetUp
	case has(" tables configured on all switches"):
		event.Kind = EngineUsed
		before, _, _ := strings.Cut(text, " tables configured on all switches")
		event.Engine = before[strings.LastIndexByte(before, ' ')+1:]
		if !isEngineName(event.Engine) {
			return LogEvent{}, false // a torn line
		}
	case has("Entering MASTER state"):
		event.Kind = MasterEntered
	case has("Entering STANDBY state"):
		event.Kind = StandbyEntered
	case has("do_ucast_file_load: ") && level&levelError != 0:
		event.Kind = TableFileRejected
	case has("No routing engine able to"):
		event.Kind = RoutingFailed
	case has("Errors during initialization"), has("ERRORS DURING INITIALIZATION"):
		event.Kind = SweepFailed
	case has("Received Generic Notice type:1 num:128 "):
		event.Kind = TrapReceived
		if event.LID, ok = lidIn(text, " from LID:"); !ok {
			return LogEvent{}, false // a torn line
		}
	case has(`Reporting Urgent Notice "Link state change"`):
		event.Kind = TrapTold
		if event.LID, ok = lidIn(text, " from switch LID "); !ok {
			return LogEvent{}, false
		}
	case has("'no_fallback'"), has("cannot build"), has("Received Generic Notice"), has("since we are exiting"):
		return LogEvent{}, false // said at every start, followed by the outcome, traps, said at every end
	case level&(levelError|logInfo) == levelError:
		event.Kind = OtherError
	default:
		return LogEvent{}, false
	}
	return event, true
}

// lidIn returns the LID in a line behind some words; ok is false where the line is torn.
func lidIn(text, words string) (lid uint16, ok bool) {
	_, rest, _ := strings.Cut(text, words)
	end := strings.IndexAny(rest, " ,")
	if end < 0 {
		return 0, false
	}
	n, err := strconv.ParseUint(rest[:end], 10, 16)
	return uint16(n), err == nil
}

// isEngineName reports whether s can be the name of a routing engine.
func isEngineName(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == ""
}

// splitLog takes a line apart into its level and its text.
func splitLog(line string) (level uint8, text string, ok bool) {
	head, text, ok := strings.Cut(line, " -> ")
	if !ok {
		return 0, "", false
	}
	hex, ok := strings.CutPrefix(head[strings.LastIndexByte(head, ' ')+1:], "0x")
	if !ok {
		return 0, "", false
	}
	v, err := strconv.ParseUint(hex, 16, 8)
	return uint8(v), strings.TrimSpace(text), err == nil
}
