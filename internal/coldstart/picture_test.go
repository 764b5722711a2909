package coldstart_test

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/coldstart"
)

func TestPictureShowsEachRequest(t *testing.T) {
	t.Parallel()
	run := coldstart.Run{Ready: time.Second, Samples: coldstart.Samples{
		answered("a", 0, time.Second),
		answered("a", 2*time.Second, time.Microsecond), // off the scale on both ends
		answered("a", 3*time.Second, time.Hour),
		{Due: 4 * time.Second, Done: 5 * time.Second, Err: "refused"},
		answered("a", time.Minute, time.Second), // beyond the axis
	}}
	var svg strings.Builder
	picture := coldstart.Picture{Until: 10 * time.Second, Lanes: []coldstart.Lane{{Name: "one", About: "a < b", Run: run}, {Name: "two", Run: run}}}
	if err := picture.WriteSVG(&svg); err != nil {
		t.Fatal(err)
	}
	shapes := map[string]int{}
	decoder := xml.NewDecoder(strings.NewReader(svg.String()))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		if start, ok := token.(xml.StartElement); ok {
			shapes[start.Name.Local]++
		}
	}
	if shapes["circle"] != 6 {
		t.Errorf("got %d dots, want 3 in each lane", shapes["circle"])
	}
	if got := strings.Count(svg.String(), "#cf222e"); got != 2 {
		t.Errorf("got %d crosses, want 1 in each lane", got)
	}
	if strings.Contains(svg.String(), "NaN") || strings.Contains(svg.String(), "Inf") {
		t.Error("the picture contains a number that is none")
	}
}
