package digits_test

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/pilotlight-proxy/pilotlight/examples/digits"
)

func TestImagesAreTwoOfEachDigit(t *testing.T) {
	t.Parallel()
	count := map[int]int{}
	for _, image := range digits.Images() {
		count[image.Digit]++
		ink := 0
		for _, pixel := range image.Pixels {
			if pixel > 16 {
				t.Errorf("%s: a pixel of %d, expected 0 to 16", image.Name, pixel)
			}
			ink += int(pixel)
		}
		if ink < 100 {
			t.Errorf("%s is nearly empty", image.Name)
		}
	}
	for digit := range 10 {
		if count[digit] != 2 {
			t.Errorf("%d images of a %d, expected 2", count[digit], digit)
		}
	}
	if got := digits.Labels(); len(got) != 20 || got[0] != digits.Images()[0].Digit {
		t.Errorf("labels %v", got)
	}
}

// The served model must say what train.py's ONNX Runtime said, also where that is wrong.
func TestModelAnswersAsWhenItWasTrained(t *testing.T) {
	t.Parallel()
	worker := startWorker(t, write(t, 0))
	for i, image := range digits.Images() {
		scores, _ := worker.ask(i)
		if got := digits.Answers(scores); !slices.Equal(got, []int{image.Answer}) {
			t.Errorf("%s: got %v, expected %d", image.Name, got, image.Answer)
		}
	}
}

func TestModelIsSmall(t *testing.T) {
	t.Parallel()
	if size := len(digits.Model()); size > 1<<20 {
		t.Errorf("the model has %d bytes", size)
	}
}

func TestAccuracyIsMeasured(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("accuracy.json")
	if err != nil {
		t.Fatal(err)
	}
	var measured struct {
		HeldOut  int     `json:"held_out"`
		Right    int     `json:"right"`
		Accuracy float64 `json:"accuracy"`
	}
	if err := json.Unmarshal(content, &measured); err != nil {
		t.Fatal(err)
	}
	if measured.HeldOut < 300 || measured.Accuracy < 0.95 {
		t.Errorf("measured %+v", measured)
	}
}

func TestSampleRequestIsTheFirstImage(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("request.json")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(content), string(digits.Body(6))+"\n"; got != want {
		t.Errorf("request.json is\n%s\nexpected\n%s", got, want)
	}
}

func TestAnswersAreReadBack(t *testing.T) {
	t.Parallel()
	body := `{"outputs":[{"name":"scores","datatype":"FP32","shape":[2,10],"data":[0,0,0,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0.5]}]}`
	got, err := digits.ReadAnswer([]byte(body))
	if err != nil || got != "3 9" {
		t.Errorf("got %q, %v", got, err)
	}
	if back, err := digits.ParseAnswer(got); err != nil || digits.FormatAnswer(back) != got {
		t.Errorf("got %v, %v", back, err)
	}
	for _, bad := range []string{
		`{`, `{}`, `{"error":"no"}`, `{"outputs":[{"name":"other"}]}`, `{"outputs":[{"name":"scores","shape":[1,10],"data":[1]}]}`,
	} {
		if got, err := digits.ReadAnswer([]byte(bad)); err == nil {
			t.Errorf("%s was read as %q", bad, got)
		}
	}
	if got, err := digits.ParseAnswer("3 10"); err == nil {
		t.Errorf("parsed %v", got)
	}
}
