package api

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Progress says how far an exchange has come: so many phases, or such a share of
// them. In JSON it is 120 or "33%".
type Progress struct {
	phases  int
	share   float64 // percent, where percent is set
	percent bool
}

// ParseProgress reads "120" or "33%"; a share may have decimals.
func ParseProgress(text string) (*Progress, error) {
	if number, ok := strings.CutSuffix(text, "%"); ok {
		share, err := strconv.ParseFloat(number, 64)
		if err != nil || !(share >= 0 && share <= 100) {
			return nil, fmt.Errorf("%q is not a share of a plan: want 0%% to 100%%", text)
		}
		return &Progress{share: share, percent: true}, nil
	}
	phases, err := strconv.Atoi(text)
	if err != nil || phases < 0 {
		return nil, fmt.Errorf("%q is not a number of phases: want 120 for instance, or 33%%", text)
	}
	return &Progress{phases: phases}, nil
}

// Of returns the number of whole phases that are done of a plan of so many. It may be more
// than the plan has.
func (p *Progress) Of(phases int) int {
	if p.percent {
		return int(math.Floor(p.share * float64(phases) / 100)) // in this order whole shares are exact
	}
	return p.phases
}

// String returns the text that ParseProgress reads.
func (p *Progress) String() string {
	if p.percent {
		return strconv.FormatFloat(p.share, 'f', -1, 64) + "%"
	}
	return strconv.Itoa(p.phases)
}

// MarshalJSON writes a number, or a share as text.
func (p *Progress) MarshalJSON() ([]byte, error) {
	if p.percent {
		return json.Marshal(p.String())
	}
	return json.Marshal(p.phases)
}

// UnmarshalJSON parses the output of MarshalJSON, and a number as text.
func (p *Progress) UnmarshalJSON(data []byte) error {
	text := string(data)
	if strings.HasPrefix(text, `"`) {
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
	}
	read, err := ParseProgress(text)
	if err != nil {
		return fmt.Errorf("done: %w", err)
	}
	*p = *read
	return nil
}
