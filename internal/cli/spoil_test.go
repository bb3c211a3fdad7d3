package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/forsd/forsd/planner"
)

// spoilMain is the script command spoil FILE FAULT [arguments].
func spoilMain() {
	path, fault, args := os.Args[1], os.Args[2], os.Args[3:]
	data, err := os.ReadFile(path)
	if err == nil {
		lines := strings.SplitAfter(string(data), "\n")
		var out []string
		if out, err = faults[fault](lines, args); err == nil {
			err = os.WriteFile(path, []byte(strings.Join(out, "")), 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "spoil:", err)
		os.Exit(1)
	}
}

// faults has functions that put one fault into the lines of a file. Each line keeps its line
// feed.
var faults = map[string]func(lines, args []string) ([]string, error){
	// Two sources of one leaf send to each other's destinations in one phase.
	"swap-destinations": func(lines, _ []string) ([]string, error) {
		for i := 1; i < len(lines)-1; i++ {
			a, b := strings.Split(lines[i], ","), strings.Split(lines[i+1], ",")
			if len(b) == 5 && a[0] == b[0] && a[3] != "-1" && b[3] != "-1" {
				a[2], b[2], a[3], b[3], a[4], b[4] = b[2], a[2], b[3], a[3], b[4], a[4]
				lines[i], lines[i+1] = strings.Join(a, ","), strings.Join(b, ",")
				return lines, nil
			}
		}
		return nil, fmt.Errorf("no two transfers to swap")
	},
	"drop-line": func(lines, args []string) ([]string, error) {
		n, err := strconv.Atoi(args[0])
		return append(lines[:n-1], lines[n:]...), err
	},
	// The second of two transfers out of a leaf uses the lane of the first. The arguments are
	// the number of lanes, of LIDs of a host, and of hosts of a leaf.
	"share-lane": func(lines, args []string) ([]string, error) {
		n := numbers(strings.Join(args, " "), " ")
		return shareLane(lines, n[0], n[1])
	},
	// The first transfer over a lane goes to the next LID of its destination.
	"next-lid": func(lines, _ []string) ([]string, error) { return bendLID(lines, 1) },
	// The first transfer over a lane goes to a distant LID.
	"far-lid": func(lines, _ []string) ([]string, error) { return bendLID(lines, 1000) },
	// Changes the entry of a LID at a switch. The arguments are the switch, the LID in
	// hexadecimal, and the new port; without a port the line is dropped.
	"entry": func(lines, args []string) ([]string, error) {
		port := ""
		if len(args) > 2 {
			port = args[2]
		}
		return setEntry(lines, args[0], args[1], port)
	},
	// Keeps only a percentage of the file's bytes.
	"cut": func(lines, args []string) ([]string, error) {
		data := strings.Join(lines, "")
		n, err := strconv.Atoi(args[0])
		return []string{data[:len(data)*n/100]}, err
	},
	"flip-byte": func(lines, args []string) ([]string, error) {
		data := []byte(strings.Join(lines, ""))
		n, err := strconv.Atoi(args[0])
		data[len(data)*n/100] ^= 0x40
		return []string{string(data)}, err
	},
	"replace": func(lines, args []string) ([]string, error) {
		data := strings.Join(lines, "")
		if !strings.Contains(data, args[0]) {
			return nil, fmt.Errorf("the file does not contain %q", args[0])
		}
		return []string{strings.ReplaceAll(data, args[0], args[1])}, nil
	},
	"drop-seconds": func(lines, _ []string) ([]string, error) {
		var out []string
		for _, l := range lines {
			if !strings.Contains(l, `"plan_seconds"`) {
				out = append(out, l)
			}
		}
		return out, nil
	},
	"report": func(lines, _ []string) ([]string, error) {
		var report planner.Report
		if err := json.Unmarshal([]byte(strings.Join(lines, "\n")), &report); err != nil {
			return nil, err
		}
		report.PlanSeconds, report.Base.PlanSeconds = 0, 0
		text, err := json.MarshalIndent(report, "", "  ")
		return []string{string(text)}, err
	},
}

// shareLane moves a transfer to the lane of another transfer out of the same leaf in the same
// phase. Hosts are numbered leaf by leaf, K for each leaf, so two adjacent lines of a phase
// belong to the same leaf unless the second starts a new leaf.
func shareLane(lines []string, lanes, lids int) ([]string, error) {
	for i := 1; i < len(lines)-1; i++ {
		a, b := strings.Split(strings.TrimSpace(lines[i]), ","), strings.Split(strings.TrimSpace(lines[i+1]), ",")
		if len(b) != 5 || a[0] != b[0] || a[3] == "-1" || b[3] == "-1" {
			continue
		}
		guids := [2]uint64{}
		for j, x := range []string{a[1], b[1]} {
			guids[j], _ = strconv.ParseUint(x, 0, 64)
			guids[j] = (guids[j] - 0x100001) / 2 / uint64(lanes)
		}
		if guids[0] != guids[1] {
			continue
		}
		to := numbers(a[3], ",")[0]
		from, dlid := numbers(b[3], ",")[0], numbers(b[4], ",")[0]
		base := dlid / lids * lids
		alpha := ((from-(dlid-base))%lanes + lanes) % lanes
		b[3], b[4] = strconv.Itoa(to), strconv.Itoa(base+((to-alpha)%lanes+lanes)%lanes)
		lines[i+1] = strings.Join(b, ",") + "\n"
		return lines, nil
	}
	return nil, fmt.Errorf("no two transfers out of one leaf")
}

// bendLID adds to the destination LID of the first transfer over a lane.
func bendLID(lines []string, by int) ([]string, error) {
	for i := 1; i < len(lines); i++ {
		f := strings.Split(strings.TrimSpace(lines[i]), ",")
		if len(f) == 5 && f[3] == "0" {
			lid, err := strconv.Atoi(f[4])
			f[4] = strconv.Itoa(lid + by)
			lines[i] = strings.Join(f, ",") + "\n"
			return lines, err
		}
	}
	return nil, fmt.Errorf("no transfer over lane 0")
}

// setEntry changes or removes an entry of a table file, and updates the first line, which
// counts the entries.
func setEntry(lines []string, name, lid, port string) ([]string, error) {
	entry := regexp.MustCompile(`^(` + lid + `) ([0-9]+)( |\n)`)
	here := false
	var out []string
	done := false
	for i, l := range lines {
		if i == 0 && strings.HasPrefix(l, "# forsd tables") {
			continue
		}
		if strings.HasPrefix(l, "Unicast lids") {
			here = strings.Contains(l, "('"+name+"')")
		}
		if here && entry.MatchString(l) {
			done = true
			if port == "" {
				continue
			}
			l = entry.ReplaceAllString(l, "${1} "+port+"${3}")
		}
		out = append(out, l)
	}
	if !done {
		return nil, fmt.Errorf("no entry of LID %s at %s in %s", lid, name, bytes.TrimSpace([]byte(lines[1])))
	}
	return out, nil
}

// numbers parses decimal numbers between separators.
func numbers(text, separator string) []int {
	var out []int
	for _, s := range strings.Split(text, separator) {
		if n, err := strconv.Atoi(s); err == nil {
			out = append(out, n)
		}
	}
	return out
}
