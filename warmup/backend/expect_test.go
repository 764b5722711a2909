package backend_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

func TestExpect(t *testing.T) {
	t.Parallel()
	const body = `{"id":"7","outputs":[{"name":"y","shape":[2],"datatype":"FP32","data":[0.5,100]}]}`
	tests := []struct {
		name   string
		expect backend.Expect
		says   string
	}{
		{"values that stand there", backend.Expect{JSON: map[string]string{"outputs.0.name": "y", "outputs.0.shape.0": "2", "outputs.0.data": "[0.5,100]"}}, ""},
		{"another value", backend.Expect{JSON: map[string]string{"outputs.0.datatype": "FP16"}}, "expected FP16 at outputs.0.datatype, got FP32"},
		{"no such path", backend.Expect{JSON: map[string]string{"outputs.1.name": "y"}}, "found nothing there"},
		{"the golden answer", backend.Expect{Equals: []byte(`{"outputs":[{"data":[0.5,100]}]}`)}, ""},
		{"the golden answer within the tolerance", backend.Expect{Equals: []byte(`{"outputs":[{"data":[0.5005,100.05]}]}`), Tolerance: 0.001}, ""},
		{"a number beyond the tolerance", backend.Expect{Equals: []byte(`{"outputs":[{"data":[0.5,101]}]}`), Tolerance: 0.001}, "expected 101 at outputs.0.data.1, got 100"},
		{"another length", backend.Expect{Equals: []byte(`{"outputs":[{"data":[0.5]}]}`)}, "at outputs.0.data"},
		{"another text", backend.Expect{Equals: []byte(`{"outputs":[{"name":"z"}]}`)}, "expected z at outputs.0.name, got y"},
		{"a key that is missing", backend.Expect{Equals: []byte(`{"outputs":[{"parameters":{}}]}`)}, "at outputs.0.parameters"},
		{"a golden answer that is no JSON", backend.Expect{Equals: []byte(`yes`)}, "differs"},
	}
	oip := backend.NewOIP(nil)
	truth := backend.Answer{Status: 200, Body: []byte(`{"outputs":[{"name":"y","shape":[2],"datatype":"BOOL","data":[true,false]}]}`)}
	if err := oip.Check("infer m", truth, backend.Expect{Finite: true}); err != nil {
		t.Errorf("truth is finite: %v", err)
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			err := oip.Check("infer m", backend.Answer{Status: 200, Body: []byte(body)}, test.expect)
			switch {
			case test.says == "" && err != nil:
				t.Error(err)
			case test.says != "" && (!errors.Is(err, backend.ErrBadAnswer) || !strings.Contains(err.Error(), test.says)):
				t.Errorf("got %v, expected one that says %q", err, test.says)
			}
		})
	}
}

func FuzzCheckOfEveryServerType(f *testing.F) {
	f.Add([]byte("data: {\"error\":NaN}\n\nevent: error\ndata: x\n"))
	f.Add([]byte("{\"done\":false}\n{\"done\":true}"))
	f.Add([]byte(`[[NaN,"`))
	var dialects []backend.Dialect
	for _, name := range backend.Names() {
		dialect, err := backend.New(name, nil, backend.Options{})
		if err != nil {
			f.Fatal(err)
		}
		dialects = append(dialects, dialect)
	}
	f.Fuzz(func(_ *testing.T, body []byte) {
		for _, dialect := range dialects {
			_ = dialect.Check("infer", backend.Answer{Status: 200, Body: body}, backend.Expect{Finite: true, JSON: map[string]string{"a.0": "1"}, Equals: body})
		}
	})
}
