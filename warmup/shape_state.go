package warmup

import "github.com/pilotlight-proxy/pilotlight/internal/units"

// ShapeState is how far a shape is.
type ShapeState int

const (
	// ShapeWaiting means that its turn has not come.
	ShapeWaiting ShapeState = iota
	// ShapeWarming means that it gets requests, or waits for its verification.
	ShapeWarming
	// ShapeConverged means one steady level, verified.
	ShapeConverged
	// ShapeMultimodal means a steady distribution of several levels, verified.
	ShapeMultimodal
	// ShapeNotConverged means that it did not settle within its bound.
	ShapeNotConverged
	// ShapeCounted means that it got the number of requests that was asked for; nothing was concluded from them.
	ShapeCounted
	// ShapeRefused means that the server takes no requests of this shape, which was only a guess, or not as many at once.
	ShapeRefused
	// ShapeFailed means that a request of this shape failed.
	ShapeFailed
	// ShapeLeft means that the time allowed for synthetic requests was spent before it was warm.
	ShapeLeft
	// ShapeConfirmed means that an earlier Pilotlight found it warm in the same process of the backend, and that one volley was as fast now.
	ShapeConfirmed
	// ShapeGivenUp means that the backend was lost twice while this shape, which the pod can do without, was being asked for. This process asks for it no more.
	ShapeGivenUp
)

var shapeStateNames = units.Names[ShapeState]{
	ShapeWaiting:      "waiting",
	ShapeWarming:      "warming",
	ShapeConverged:    "converged",
	ShapeMultimodal:   "multimodal",
	ShapeNotConverged: "not_converged",
	ShapeCounted:      "counted",
	ShapeRefused:      "refused",
	ShapeFailed:       "failed",
	ShapeLeft:         "left",
	ShapeConfirmed:    "confirmed",
	ShapeGivenUp:      "given_up",
}

// ShapeStateValues lists every value, in order.
func ShapeStateValues() []ShapeState { return shapeStateNames.Values() }

// String returns the word used in reports.
func (s ShapeState) String() string { return shapeStateNames.Of(s) }

// MarshalText implements [encoding.TextMarshaler].
func (s ShapeState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Warm says whether nothing is left to be done for the shape.
func (s ShapeState) Warm() bool {
	return s == ShapeConverged || s == ShapeMultimodal || s == ShapeCounted || s == ShapeConfirmed
}

// decided says whether the run is through with the shape, warm or not.
func (s ShapeState) decided() bool {
	return s.Warm() || s == ShapeNotConverged || s == ShapeRefused || s == ShapeLeft || s == ShapeGivenUp
}
