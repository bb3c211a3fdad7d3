package hostlist

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// Host is a host of a host file.
type Host struct {
	Name  string
	Slots int // processes, at least 1
}

// maxSlots bounds the processes of a host.
const maxSlots = 1 << 16

// ReadFile reads the host file of an MPI launcher, with one host per line: "node001 slots=4"
// for Open MPI, "node001:4" for MPICH, or "node001" once for each process, as batch systems
// write it. Lines for the same host add up, and the first one determines its position. It
// ignores further words KEY=VALUE, and text after a #. Errors contain path.
func ReadFile(data []byte, path string) ([]Host, error) {
	var hosts []Host
	place := map[string]int{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		h, err := readHost(words)
		if err != nil {
			return nil, fmt.Errorf("%s line %d: %w", path, n, err)
		}
		i, known := place[h.Name]
		if !known {
			i, place[h.Name] = len(hosts), len(hosts)
			hosts = append(hosts, Host{Name: h.Name})
		}
		if hosts[i].Slots += h.Slots; hosts[i].Slots > maxSlots || len(hosts) > Most {
			return nil, fmt.Errorf("%s line %d: more than %d processes on a host, or than %d hosts", path, n, maxSlots, Most)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(hosts) == 0 {
		return nil, fmt.Errorf("%s names no host", path)
	}
	return hosts, nil
}

// readHost parses the words of a line. A port GUID, 0x…, does not contain a colon.
func readHost(words []string) (Host, error) {
	host, count, counted := strings.Cut(words[0], ":")
	h := Host{Name: host, Slots: 1}
	if host == "" || strings.Contains(host, "=") {
		return h, fmt.Errorf("%.60q is not a host: want NAME, NAME slots=N or NAME:N", words[0])
	}
	if counted {
		slots, err := readSlots(count)
		if err != nil {
			return h, err
		}
		h.Slots = slots
	}
	for _, word := range words[1:] {
		key, value, ok := strings.Cut(word, "=")
		if !ok {
			return h, fmt.Errorf("%.60q follows host %.60s: want slots=N", word, host)
		}
		if key == "slots" {
			slots, err := readSlots(value)
			if err != nil {
				return h, err
			}
			h.Slots = slots
		}
	}
	return h, nil
}

func readSlots(text string) (int, error) {
	slots, err := strconv.Atoi(text)
	if err != nil || slots < 1 || slots > maxSlots {
		return 0, fmt.Errorf("%.60q is not a number of processes: want 1 to %d", text, maxSlots)
	}
	return slots, nil
}
