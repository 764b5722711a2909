package warmup_test

import (
	"encoding"
	"fmt"
	"strings"
	"testing"

	"github.com/pilotlight-proxy/pilotlight/warmup"
	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

type enum interface {
	fmt.Stringer
	encoding.TextMarshaler
}

func checkEnum[T enum](t *testing.T, values []T, next T) {
	t.Helper()
	seen := map[string]bool{}
	for _, value := range values {
		text, err := value.MarshalText()
		if err != nil || string(text) != value.String() || strings.Contains(value.String(), "(") || seen[value.String()] {
			t.Errorf("%T: %q, %v", value, text, err)
		}
		seen[value.String()] = true
	}
	if !strings.Contains(next.String(), "(") {
		t.Errorf("%T: a value beyond the last is called %q: is it missing from the list?", next, next)
	}
}

func TestEnums(t *testing.T) {
	t.Parallel()
	checkEnum(t, warmup.KindValues(), warmup.Kind(len(warmup.KindValues())))
	checkEnum(t, warmup.StepStateValues(), warmup.StepState(len(warmup.StepStateValues())))
	checkEnum(t, warmup.OutcomeValues(), warmup.Outcome(len(warmup.OutcomeValues())))
	checkEnum(t, warmup.ReasonValues(), warmup.Reason(len(warmup.ReasonValues())))
	checkEnum(t, warmup.ShapeStateValues(), warmup.ShapeState(len(warmup.ShapeStateValues())))
	checkEnum(t, warmup.EventKindValues(), warmup.EventKind(len(warmup.EventKindValues())))
	checkEnum(t, warmup.PolicyValues(), warmup.Policy(len(warmup.PolicyValues())))
	checkEnum(t, warmup.OrderValues(), warmup.Order(len(warmup.OrderValues())))
	checkEnum(t, warmup.TriggerValues(), warmup.Trigger(len(warmup.TriggerValues())))
	checkEnum(t, warmup.EndpointValues(), warmup.Endpoint(len(warmup.EndpointValues())))
	checkEnum(t, backend.AxisValues(), backend.Axis(len(backend.AxisValues())))
}
