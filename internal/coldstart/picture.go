package coldstart

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"
	"time"
)

// Lane is one arm of a [Picture].
type Lane struct {
	Name string
	// About says in a few words what the arm's clients do.
	About string
	Run   Run
}

// Picture shows every request of every arm: when it was due, how long its user waited, and when the arm called itself ready.
type Picture struct {
	Lanes []Lane
	// Until is the end of the time axis.
	Until time.Duration
}

// The picture's measures, in pixels.
const (
	width, laneHeight    = 860, 150
	left, right, top     = 70, 20, 34
	gap, bottom          = 46, 40
	fastest, slowest     = time.Millisecond, 10 * time.Second
	dotRadius, fontPixel = 1.6, 12
)

// WriteSVG draws the picture. Waiting is drawn on a logarithmic scale; failures are crosses at the top.
func (p Picture) WriteSVG(w io.Writer) error {
	var b strings.Builder
	height := top + len(p.Lanes)*(laneHeight+gap) - gap + bottom
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="system-ui, sans-serif" font-size="%d">`+"\n", width, height, width, height, fontPixel)
	b.WriteString(`<title>How long each user waited, by when the request came, counted from the start of the backend</title>` + "\n")
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	for i, lane := range p.Lanes {
		p.lane(&b, lane, float64(top+i*(laneHeight+gap)))
	}
	for second := 0; time.Duration(second)*time.Second <= p.Until; second += p.tick() {
		fmt.Fprintf(&b, `<text x="%.0f" y="%d" text-anchor="middle" fill="#57606a">%d s</text>`+"\n", p.x(time.Duration(second)*time.Second), height-bottom+18, second)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" fill="#57606a">across: when the request came, since the backend was started; up: how long its user waited; shaded: not ready</text>`+"\n", left, height-6)
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())

	return err
}

func (p Picture) lane(b *strings.Builder, lane Lane, y0 float64) {
	fmt.Fprintf(b, `<text x="%d" y="%.0f"><tspan font-weight="600">%s</tspan> <tspan fill="#57606a">%s</tspan></text>`+"\n", left, y0-8, html.EscapeString(lane.Name), html.EscapeString(lane.About))
	fmt.Fprintf(b, `<rect x="%d" y="%.0f" width="%d" height="%d" fill="#f6f8fa" stroke="#d0d7de"/>`+"\n", left, y0, width-left-right, laneHeight)
	for _, grid := range []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, time.Second} {
		y := y0 + waited(grid)
		fmt.Fprintf(b, `<path d="M%d %.1fH%d" stroke="#d0d7de" stroke-dasharray="2 3"/><text x="%d" y="%.1f" text-anchor="end" fill="#57606a">%s</text>`+"\n", left, y, width-right, left-6, y+4, grid)
	}
	ready := p.x(lane.Run.Ready)
	fmt.Fprintf(b, `<rect x="%d" y="%.0f" width="%.1f" height="%d" fill="#bf8700" fill-opacity="0.10"/>`+"\n", left, y0, ready-left, laneHeight)
	fmt.Fprintf(b, `<path d="M%.1f %.0fv%d" stroke="#bf8700" stroke-width="1.5"/><text x="%.1f" y="%.0f" fill="#9a6700">ready</text>`+"\n", ready, y0, laneHeight, ready+4, y0+laneHeight-6)
	for _, sample := range lane.Run.Samples {
		if sample.Due > p.Until {
			continue
		}
		x, y := p.x(sample.Due), y0+waited(sample.Latency())
		if sample.Succeeded() {
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="%.1f" fill="%s" fill-opacity="0.6"/>`, x, y, dotRadius, color(sample, lane.Run.Ready))
		} else {
			fmt.Fprintf(b, `<path d="M%.1f %.1fl6 6m0-6l-6 6" stroke="#cf222e"/>`, x-3, y0+3)
		}
	}
	b.WriteString("\n")
}

// x is where a moment stands on the time axis.
func (p Picture) x(at time.Duration) float64 {
	return left + float64(min(at, p.Until))/float64(p.Until)*(width-left-right)
}

// tick is the distance of the marks on the time axis, in seconds.
func (p Picture) tick() int { return max(1, int(p.Until.Seconds())/10) }

// waited is how far below a lane's upper edge a waiting time stands.
func waited(latency time.Duration) float64 {
	clamped := min(max(latency, fastest), slowest)

	return laneHeight * (1 - math.Log(float64(clamped)/float64(fastest))/math.Log(float64(slowest)/float64(fastest)))
}

// color tells those who came before ready from those who came after.
func color(sample Sample, ready time.Duration) string {
	if sample.Due < ready {
		return "#9a6700"
	}

	return "#0969da"
}
