package units_test

import (
	"testing"
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

func TestAutoIsAutoOrAValue(t *testing.T) {
	t.Parallel()
	var d units.Auto[units.Duration]
	if text, _ := d.MarshalText(); string(text) != "auto" || d.Or(3) != 3 {
		t.Errorf("the zero Auto prints %q and falls back to %v", text, d.Or(3))
	}
	if err := d.UnmarshalText([]byte("2s")); err != nil || d != units.Of(units.Duration(2*time.Second)) {
		t.Errorf("2s reads as %+v, %v", d, err)
	}
	if err := d.UnmarshalText([]byte("2")); err == nil || !d.Set {
		t.Errorf("a refused text changed the value to %+v, or was accepted: %v", d, err)
	}
	if text, _ := d.MarshalText(); string(text) != "2s" {
		t.Errorf("prints %q", text)
	}
	if err := d.UnmarshalText([]byte("auto")); err != nil || d.Set {
		t.Errorf("auto reads as %+v, %v", d, err)
	}

	var n units.Auto[int]
	if err := n.UnmarshalText([]byte("4")); err != nil || n != units.Of(4) {
		t.Errorf("4 reads as %+v, %v", n, err)
	}
	if err := n.UnmarshalText([]byte("four")); err == nil {
		t.Error("four is accepted as a number")
	}
	var s units.Auto[string]
	if err := s.UnmarshalText([]byte("/run/token")); err != nil || s != units.Of("/run/token") {
		t.Errorf("a path reads as %+v, %v", s, err)
	}
	var f units.Auto[float64]
	if err := f.UnmarshalText([]byte("1")); err == nil {
		t.Error("a type that cannot be read is accepted")
	}
}
