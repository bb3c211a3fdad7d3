package driver

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
)

// Site is a file that lists the switches of a site.
type Site struct {
	Version  int     `yaml:"version"` // 1
	Unit     string  `yaml:"unit"`    // duration of 1 in a schedule's time, such as 1s
	Switches []Entry `yaml:"switches"`
}

// Entry is a switch of a site.
type Entry struct {
	Name         string `yaml:"name"`
	Driver       string `yaml:"driver"` // Polatis or PolatisNetconf
	URL          string `yaml:"url"`
	Username     string `yaml:"username"`
	PasswordFile string `yaml:"password_file"`
	CAFile       string `yaml:"ca_file"`     // of the switch's certificate; empty for the system's
	KeyFile      string `yaml:"key_file"`    // SSH key, with or in place of a password
	KnownHosts   string `yaml:"known_hosts"` // file with the SSH host key of the switch
	Ingress      string `yaml:"ingress"`     // the port that each rack sends into: 1-16 or 1,3,5
	Egress       string `yaml:"egress"`      // the port that each rack receives from
}

// The drivers: Polatis switches by RESTCONF and by NETCONF.
const (
	Polatis        = "polatis"
	PolatisNetconf = "polatis-netconf"
)

// ReadSite reads a site's file.
func ReadSite(path string) (*Site, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the switches: %w", err)
	}
	return ParseSite(data, path)
}

// ParseSite parses a site; name is its name in errors.
func ParseSite(data []byte, name string) (*Site, error) {
	var s Site
	if err := yaml.UnmarshalWithOptions(data, &s, yaml.Strict()); err != nil {
		var at yaml.Error
		if errors.As(err, &at) && at.GetToken() != nil {
			return nil, fmt.Errorf("%s:%d: %s", name, at.GetToken().Position.Line, at.GetMessage())
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &s, nil
}

func (s *Site) check() error {
	if s.Version != 1 {
		return fmt.Errorf("version is %d: write version: 1", s.Version)
	}
	if d, err := time.ParseDuration(s.Unit); err != nil || d <= 0 {
		return fmt.Errorf("unit is %q: give the duration of 1 in a schedule's time, such as 1s", s.Unit)
	}
	if len(s.Switches) == 0 {
		return errors.New("switches is empty: list the switches, in the order of the schedule's")
	}
	names, ports := map[string]bool{}, map[string]string{}
	for i, e := range s.Switches {
		if e.Name == "" || names[e.Name] {
			return fmt.Errorf("switch %d has the name %q: give each a name of its own", i+1, e.Name)
		}
		names[e.Name] = true
		if err := e.check(); err != nil {
			return fmt.Errorf("switch %s: %w", e.Name, err)
		}
		for _, x := range [][2]string{{"ingress", e.Ingress}, {"egress", e.Egress}} {
			list, _ := Ports(x[1]) // checked just now
			for _, p := range list {
				port := fmt.Sprintf("%s port %d of %s", x[0], p, strings.TrimSuffix(e.URL, "/"))
				if other := ports[port]; other != "" && other != e.Name {
					return fmt.Errorf("switches %s and %s both have %s", other, e.Name, port)
				}
				ports[port] = e.Name
			}
		}
	}
	return nil
}

func (e *Entry) check() error {
	u, err := url.Parse(e.URL)
	if err != nil || u.Host == "" {
		u = &url.URL{}
	}
	switch e.Driver {
	case Polatis:
		if u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("url is %q: want one such as https://192.0.2.1:8008", e.URL)
		}
		if e.KeyFile != "" || e.KnownHosts != "" {
			return errors.New("key_file and known_hosts are for driver " + PolatisNetconf)
		}
	case PolatisNetconf:
		if u.Scheme != "ssh" {
			return fmt.Errorf("url is %q: want one such as ssh://192.0.2.1:830", e.URL)
		}
		if e.CAFile != "" {
			return errors.New("ca_file is for driver " + Polatis + ": give the file of SSH host keys as known_hosts")
		}
		if e.KnownHosts == "" {
			return errors.New("known_hosts is missing: name a file with the SSH host key of the switch (ssh-keyscan makes one)")
		}
	default:
		return fmt.Errorf("driver is %q: want %s or %s", e.Driver, Polatis, PolatisNetconf)
	}
	for _, x := range [][2]string{{"ingress", e.Ingress}, {"egress", e.Egress}} {
		if _, err := Ports(x[1]); err != nil {
			return fmt.Errorf("%s: %w", x[0], err)
		}
	}
	return nil
}

// UnitDuration is the site's unit of time.
func (s *Site) UnitDuration() time.Duration {
	d, _ := time.ParseDuration(s.Unit) // checked when it was read
	return d
}

// Line returns the switch with its ports for Run.
func (e *Entry) Line(s Switch) Line {
	ingress, _ := Ports(e.Ingress) // checked when they were read
	egress, _ := Ports(e.Egress)
	return Line{Name: e.Name, Switch: s, Ingress: ingress, Egress: egress}
}

// maxPort is the largest port number: port numbers have 16 bits.
const maxPort = 1<<16 - 1

// Ports parses a comma-separated list of ports and ranges such as 1-16.
func Ports(list string) ([]int, error) {
	var ports []int
	for _, item := range strings.Split(list, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(item), "-")
		if !isRange {
			to = from
		}
		a, errA := strconv.Atoi(from)
		b, errB := strconv.Atoi(to)
		if errA != nil || errB != nil || a < 1 || b < a || b > maxPort {
			return nil, fmt.Errorf("%q is not a port or range of ports: want for instance 1-16 or 1,3,5", item)
		}
		if len(ports)+b-a >= maxPort {
			return nil, fmt.Errorf("%q: more than %d ports", list, maxPort)
		}
		for p := a; p <= b; p++ {
			ports = append(ports, p)
		}
	}
	return ports, nil
}
