package server

import (
	"bytes"
	"testing"

	"github.com/forsd/forsd/phasetable"
)

// TestWhatIfTable asks for the phases of a forecast in both forms.
func TestWhatIfTable(t *testing.T) {
	s := newSite(t)
	h := Handler(s.Config, false)
	w := request(h, "POST", "/v1/whatif", `{"done":"50%"}`, "Accept", phasetable.MediaType)
	view, err := phasetable.Decode(w.Body.Bytes())
	if err != nil || view.Epoch() != 42 || w.Header().Get("Content-Type") != phasetable.MediaType {
		t.Errorf("%v, %v", w.Header(), err)
	}
	w = request(h, "POST", "/v1/whatif", `{"done":"50%"}`, "Accept", "text/csv")
	var csv bytes.Buffer
	if err := phasetable.WriteCSV(&csv, view.Table()); err != nil || w.Body.String() != csv.String() {
		t.Errorf("the text is not that of the table (%v): %s", err, w.Body)
	}
	if w = request(h, "POST", "/v1/whatif", `{"done":1}`, "Accept", "image/png"); w.Code != 406 {
		t.Errorf("%d %s, want 406", w.Code, w.Body)
	}
}
