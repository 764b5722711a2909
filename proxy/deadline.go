package proxy

import (
	"net/http"
	"strconv"
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"github.com/pilotlight-proxy/pilotlight/proxy/upstream"
)

// deadline is when a caller stops waiting. The zero deadline is none.
type deadline struct {
	at   time.Time
	told bool // by the caller; otherwise it is assumed, and nothing is passed on
}

// leastSpent is what a request must have spent here before its timeout is written anew: below it the caller's own words are as true, and nothing is changed.
const leastSpent = time.Millisecond

// timeoutHeader is a header in which callers say for how long they wait, in a form of its own.
type timeoutHeader struct {
	name  string                             // in canonical form; empty: no such header
	parse func(string) (time.Duration, bool) // false: it says nothing that is understood
	write func(time.Duration) string
}

// timeoutHeaders lists the headers that count for a request. own is the user's, in canonical form.
func timeoutHeaders(grpc bool, own string) [3]timeoutHeader {
	headers := [3]timeoutHeader{
		{"Grpc-Timeout", parseGRPCTimeout, writeGRPCTimeout},
		{"X-Envoy-Expected-Rq-Timeout-Ms", parseMilliseconds, writeMilliseconds},
		{own, parseTimeout, writeTimeout},
	}
	if !grpc {
		headers[0].name = ""
	}
	if own == headers[0].name || own == headers[1].name {
		headers[2].name = ""
	}

	return headers
}

// said returns the one value of the header, if it is understood. Of two that differ nobody knows which one the backend takes.
func (t timeoutHeader) said(h http.Header) (timeout time.Duration, ok bool) {
	values := h[t.name]
	if t.name == "" || len(values) != 1 {
		return 0, false
	}

	return t.parse(values[0])
}

// readDeadline finds out when the caller stops waiting: the earliest that any header says, else what is assumed.
func (x *exchange) readDeadline() {
	tunable := x.h.tunable.Load()
	for _, header := range timeoutHeaders(x.grpc, tunable.deadlineHeader) {
		if timeout, ok := header.said(x.r.Header); ok {
			if at := x.arrived.Add(timeout); !x.deadline.told || at.Before(x.deadline.at) {
				x.deadline = deadline{at, true}
			}
		}
	}
	if !x.deadline.told && tunable.assumeDeadline > 0 {
		x.deadline.at = x.arrived.Add(tunable.assumeDeadline)
	}
	x.ticket.expires = x.deadline.at
}

// expired says whether nobody waits for an answer any more.
func (x *exchange) expired() bool {
	return !x.deadline.at.IsZero() && !time.Now().Before(x.deadline.at)
}

// passOn adds what tells the backend how much time is left, in each header that the caller used and in its form.
func (x *exchange) passOn(fields []upstream.Field) []upstream.Field {
	if !x.deadline.told {
		return fields
	}
	spent := time.Since(x.arrived)
	if spent < leastSpent {
		return fields
	}
	for _, header := range timeoutHeaders(x.grpc, x.h.tunable.Load().deadlineHeader) {
		if timeout, ok := header.said(x.r.Header); ok {
			fields = append(fields, upstream.Field{Name: header.name, Value: header.write(max(1, timeout-spent))})
		}
	}

	return fields
}

// grpcUnits are the units of grpc-timeout, finest first.
var grpcUnits = [...]struct {
	letter byte
	worth  time.Duration
}{{'n', 1}, {'u', time.Microsecond}, {'m', time.Millisecond}, {'S', time.Second}, {'M', time.Minute}, {'H', time.Hour}}

// mostGRPC is the largest number in a grpc-timeout: eight digits.
const mostGRPC = 99_999_999

// parseGRPCTimeout reads a grpc-timeout: at most eight digits and a unit. A timeout of ten years or more is none.
func parseGRPCTimeout(text string) (timeout time.Duration, ok bool) {
	if len(text) < 2 || len(text) > 9 {
		return 0, false
	}
	last := len(text) - 1
	for _, unit := range grpcUnits {
		if unit.letter == text[last] {
			return scaled(text[:last], unit.worth)
		}
	}

	return 0, false
}

// writeGRPCTimeout writes a timeout in the finest unit in which it fits, rounded down: the backend must not believe that it has more time than there is.
func writeGRPCTimeout(left time.Duration) string {
	for _, unit := range grpcUnits {
		if n := left / unit.worth; n <= mostGRPC {
			return strconv.FormatInt(int64(n), 10) + string(unit.letter)
		}
	}

	return strconv.Itoa(mostGRPC) + "H"
}

// parseMilliseconds reads Envoy's form. 0 is no timeout there.
func parseMilliseconds(text string) (timeout time.Duration, ok bool) {
	timeout, ok = scaled(text, time.Millisecond)

	return timeout, ok && timeout > 0
}

// writeMilliseconds writes whole milliseconds, and never 0, which would be no timeout.
func writeMilliseconds(left time.Duration) string {
	return strconv.FormatInt(max(1, left.Milliseconds()), 10)
}

// parseTimeout reads a duration with its unit, such as 2.5s. 0 is no timeout.
func parseTimeout(text string) (timeout time.Duration, ok bool) {
	parsed, err := units.ParseDuration(text)

	return parsed.Std(), err == nil && parsed > 0
}

func writeTimeout(left time.Duration) string {
	if left > time.Millisecond {
		left = left.Truncate(time.Millisecond)
	}

	return units.Duration(left).String()
}

// scaled reads digits and nothing else.
func scaled(digits string, worth time.Duration) (d time.Duration, ok bool) {
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || time.Duration(n) > units.MaxDuration.Std()/worth {
		return 0, false
	}

	return time.Duration(n) * worth, true
}
