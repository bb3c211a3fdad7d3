package opensm

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
)

const (
	maxConf     = 16 << 20 // bytes
	maxConfLine = 1022     // bytes that OpenSM reads of a line in one piece
	maxLMC      = 7
)

// setter puts the text of a setting where it belongs. An error says why OpenSM
// ignores it.
type setter func(s *Settings, text string) error

// setters are the keys of opensm.conf that forsd depends on.
var setters = map[string]setter{
	"routing_engine":       word(func(s *Settings) *string { return &s.RoutingEngine }),
	"lfts_file":            word(func(s *Settings) *string { return &s.LFTsFile }),
	"root_guid_file":       word(func(s *Settings) *string { return &s.RootFile }),
	"lid_matrix_dump_file": word(func(s *Settings) *string { return &s.LIDMatrixFile }),
	"dump_files_dir":       word(func(s *Settings) *string { return &s.DumpDir }),
	"event_plugin_name":    word(func(s *Settings) *string { return &s.EventPlugins }),
	"event_plugin_options": word(func(s *Settings) *string { return &s.PluginOptions }),
	"node_name_map_name":   word(func(s *Settings) *string { return &s.NodeNames }),
	"log_file":             word(func(s *Settings) *string { return &s.LogFile }),
	"ar_mode":              word(func(s *Settings) *string { return &s.AdaptiveRouting }),
	"shield_mode":          word(func(s *Settings) *string { return &s.Shield }),
	"sharp_enabled":        word(func(s *Settings) *string { return &s.Sharp }),
	"use_ucast_cache":      truth(func(s *Settings) *bool { return &s.UcastCache }),
	"lmc_esp0":             truth(func(s *Settings) *bool { return &s.LMCOnSwitches }),
	"force_log_flush":      truth(func(s *Settings) *bool { return &s.LogFlush }),
	"sweep_on_trap":        truth(func(s *Settings) *bool { return &s.SweepOnTrap }),
	"honor_guid2lid_file":  truth(func(s *Settings) *bool { return &s.HonorGUID2LID }),
	"reassign_lids":        truth(func(s *Settings) *bool { return &s.ReassignLIDs }),
	"ignore_other_sm":      truth(func(s *Settings) *bool { return &s.IgnoreOthers }),
	"sm_inactive":          truth(func(s *Settings) *bool { return &s.Inactive }),
	"lmc":                  number(math.MaxUint8, func(s *Settings, v uint64) { s.LMC = uint8(v) }),
	"log_flags":            number(math.MaxUint8, func(s *Settings, v uint64) { s.LogFlags = uint8(v) }),
	"sweep_interval":       number(math.MaxUint32, func(s *Settings, v uint64) { s.SweepInterval = uint32(v) }),

	"m_key":                  number(math.MaxUint64, func(s *Settings, v uint64) { s.MKey = v }),
	"m_key_protection_level": number(math.MaxUint8, func(s *Settings, v uint64) { s.MKeyLevel = uint8(v) }),
}

func word(field func(*Settings) *string) setter {
	return func(s *Settings, text string) error {
		if text == "(null)" {
			text = ""
		}
		*field(s) = text
		return nil
	}
}

// truth is TRUE or, whatever the text, false.
func truth(field func(*Settings) *bool) setter {
	return func(s *Settings, text string) error {
		*field(s) = text == "TRUE"
		if text != "TRUE" && text != "FALSE" {
			return fmt.Errorf("%q means FALSE to OpenSM, which knows only TRUE and FALSE", text)
		}
		return nil
	}
}

func number(limit uint64, set func(*Settings, uint64)) setter {
	return func(s *Settings, text string) error {
		v, err := cNumber(text)
		if err != nil {
			return fmt.Errorf("%q is not a number; OpenSM ignores it", text)
		}
		if v > limit {
			return fmt.Errorf("%s is over %d; OpenSM ignores it", text, limit)
		}
		set(s, v)
		return nil
	}
}

// cNumber reads a number as strtoull does with base 0 where nothing follows.
func cNumber(text string) (uint64, error) {
	text = strings.TrimPrefix(text, "+")
	base := 10
	switch {
	case strings.HasPrefix(text, "0x"), strings.HasPrefix(text, "0X"):
		base, text = 16, text[2:]
	case len(text) > 1 && text[0] == '0':
		base = 8
	}
	return strconv.ParseUint(text, base, 64)
}

// Setting is a line of an opensm.conf that sets something.
type Setting struct {
	Line       int // from 1
	Key, Value string
}

// ConfSettings yields the settings of an opensm.conf as OpenSM reads them: a key and a value on a
// line, '#' begins a comment, and a later line wins.
func ConfSettings(data []byte) iter.Seq[Setting] {
	return func(yield func(Setting) bool) {
		for line := 1; len(data) > 0; line++ {
			var text []byte
			text, data, _ = bytes.Cut(data, []byte{'\n'})
			for {
				piece := text[:min(len(text), maxConfLine)]
				if key, value := readConfLine(piece); key != "" && !yield(Setting{line, key, value}) {
					return
				}
				if text = text[len(piece):]; len(text) == 0 {
					break
				}
			}
		}
	}
}

func readConfLine(text []byte) (key, value string) {
	text, _, _ = bytes.Cut(text, []byte{0})
	text, _, _ = bytes.Cut(text, []byte{'#'})
	text = bytes.TrimLeft(text, " \t")
	end := bytes.IndexAny(text, " \t")
	if end < 0 {
		return string(text), ""
	}
	return string(text[:end]), cleanValue(text[end+1:])
}

// readConf reads an opensm.conf. Missing keys keep their values, and keys that forsd does not
// depend on are ignored. The error lists, by line, values that OpenSM probably interprets
// other than intended; the settings are usable nevertheless.
func (s *Settings) readConf(data []byte) error {
	var problems []error
	for x := range ConfSettings(data) {
		set, known := setters[x.Key]
		if !known {
			continue
		}
		s.origins[x.Key] = origin{line: x.Line}
		if err := set(s, x.Value); err != nil {
			problems = append(problems, fmt.Errorf("line %d: %s: %w", x.Line, x.Key, err))
		}
	}
	if s.LMC > maxLMC {
		problems = append(problems, fmt.Errorf("line %d: lmc %d is over %d; OpenSM takes 0 instead", s.origins["lmc"].line, s.LMC, maxLMC))
		s.LMC = 0
	}
	return errors.Join(problems...)
}

// cleanValue takes away the white space around a value, then its quotes.
func cleanValue(value []byte) string {
	text := strings.Trim(string(value), " \t\n\v\f\r")
	if text == "" {
		return ""
	}
	first, last := text[0], text[len(text)-1]
	if first != last || first != '"' && first != '\'' {
		return text
	}
	return text[1:max(1, len(text)-1)]
}
