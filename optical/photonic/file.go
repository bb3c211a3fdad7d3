package photonic

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// fileVersion is the version of the format of Encode.
const fileVersion = 1

// file is a plan with its instance.
type file struct {
	Version  int       `json:"version"`
	Instance *Instance `json:"instance"`
	Plan     *Plan     `json:"plan"`
}

// Encode encodes an instance and its plan as JSON, with every hop.
func Encode(in *Instance, p *Plan) ([]byte, error) {
	return json.Marshal(file{fileVersion, in, p})
}

// Decode decodes the output of Encode and checks the instance. Replay checks the plan.
func Decode(data []byte) (*Instance, *Plan, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var f file
	if err := dec.Decode(&f); err != nil {
		return nil, nil, fmt.Errorf("it is not a plan of forsplan photonic plan --out: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, nil, errors.New("something follows the plan")
	}
	switch {
	case f.Version != fileVersion:
		return nil, nil, fmt.Errorf("its version is %d: want %d", f.Version, fileVersion)
	case f.Instance == nil || f.Plan == nil:
		return nil, nil, errors.New("it has no instance or no plan")
	}
	return f.Instance, f.Plan, f.Instance.Check()
}
