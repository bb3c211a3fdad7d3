package failures

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/google/renameio/v2"
)

// Shard is one of the parts of equal size into which cases are divided, from 1 on.
type Shard struct{ Number, Of int }

// mostShards limits the shards, because each has a file.
const mostShards = 9999

// Set reads a shard in the form 2/4.
func (s *Shard) Set(text string) error {
	number, of, ok := strings.Cut(text, "/")
	n, err := strconv.Atoi(number)
	m, err2 := strconv.Atoi(of)
	if !ok || err != nil || err2 != nil || n < 1 || n > m || m > mostShards {
		return fmt.Errorf("want a shard and their number, such as 2/4, with at most %d", mostShards)
	}
	*s = Shard{n, m}
	return nil
}

// String is the form that Set reads.
func (s *Shard) String() string { return fmt.Sprintf("%d/%d", s.Number, s.Of) }

// Type is what help calls the value.
func (s *Shard) Type() string { return "I/N" }

// Cases returns the cases of a shard.
func (s *Shard) Cases(all []Case) []Case {
	return all[len(all)*(s.Number-1)/s.Of : len(all)*s.Number/s.Of]
}

// Folder keeps the failures of shards in files, which other processes and machines may write
// at the same time.
type Folder struct {
	Dir    string
	Inputs string // identifies what the failures follow from
}

// whole is the file of all failures.
const whole = "failures.jsonl"

// header is the first line of a file; a Failure follows in each line.
type header struct {
	Schema   string `json:"schema"`
	Inputs   string `json:"inputs"`
	Failures int    `json:"failures"`
}

const schema = "forsctl/acceptance/failures"

func (d Folder) path(s Shard) string {
	return filepath.Join(d.Dir, fmt.Sprintf("failures-%04d-of-%04d.jsonl", s.Number, s.Of))
}

// Read returns the failures of a shard, nil if it has not been planned.
func (d Folder) Read(s Shard) ([]Failure, error) {
	path := d.path(s)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	lines := json.NewDecoder(bytes.NewReader(data))
	var h header
	if err := lines.Decode(&h); err != nil || h.Schema != schema {
		return nil, fmt.Errorf("%s is not of forsctl acceptance: name another folder, or remove it", path)
	}
	if h.Inputs != d.Inputs {
		return nil, fmt.Errorf("%s is of another fabric, other tables, flags or version: name another folder, or remove it", path)
	}
	failures := []Failure{}
	for lines.More() {
		var x Failure
		err := lines.Decode(&x)
		if err == nil && (len(x.Dead) < 1 || len(x.Dead) > Most) {
			err = fmt.Errorf("it has %d dead parts", len(x.Dead))
		}
		if err != nil {
			return nil, fmt.Errorf("%s, failure %d: it cannot be read (%w): remove the file, and plan its shard again", path, len(failures)+1, err)
		}
		failures = append(failures, x)
	}
	if len(failures) != h.Failures {
		return nil, fmt.Errorf("%s has %d of %d failures: remove it, and plan its shard again", path, len(failures), h.Failures)
	}
	return failures, nil
}

// Write keeps the failures of a shard.
func (d Folder) Write(s Shard, failures []Failure) error { return d.write(d.path(s), failures) }

func (d Folder) write(path string, failures []Failure) error {
	var text bytes.Buffer
	lines := json.NewEncoder(&text)
	lines.SetEscapeHTML(false)
	if err := lines.Encode(header{schema, d.Inputs, len(failures)}); err != nil {
		return err
	}
	for i := range failures {
		if err := lines.Encode(&failures[i]); err != nil {
			return err
		}
	}
	return renameio.WriteFile(path, text.Bytes(), 0o644)
}

// Merge reads all shards of a number, and writes the file of all failures once none is missing.
func (d Folder) Merge(of int) (all []Failure, missing []int, err error) {
	for i := range of {
		some, err := d.Read(Shard{i + 1, of})
		if err != nil {
			return nil, nil, err
		}
		if some == nil {
			missing = append(missing, i+1)
		}
		all = append(all, some...)
	}
	if len(missing) > 0 {
		return all, missing, nil
	}
	return all, nil, d.write(filepath.Join(d.Dir, whole), all)
}
