package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotlight-proxy/pilotlight/examples/digits"
	"github.com/pilotlight-proxy/pilotlight/internal/coldstart"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// demoCmd shows the main job on a real model: the same traffic of real images against a really cold backend, three ways.
type demoCmd struct {
	Once    bool
	JSON    string
	Check   bool
	SVG     string
	Rate    float64
	Tail    units.Duration
	Ballast units.Size
}

func (c *demoCmd) Command() *cobra.Command {
	command := &cobra.Command{Use: "demo", Short: "Show a really cold model server with and without Pilotlight."}
	flags := command.Flags()
	flags.BoolVar(&c.Once, "once", false, "End after the comparison instead of staying up.")
	flags.StringVar(&c.JSON, "json", "", "Write the figures to `FILE`.")
	flags.BoolVar(&c.Check, "check", false, "Fail when a figure contradicts what is claimed, or proves nothing.")
	flags.StringVar(&c.SVG, "svg", "", "Draw every request of every arm into `FILE`.")
	flags.Float64Var(&c.Rate, "rate", 100, "Requests a second, from t=0 on.")
	flags.TextVar(&c.Tail, "tail", units.Duration(10*time.Second), "The `DURATION` of the traffic after ready, in each arm.")
	flags.TextVar(&c.Ballast, "ballast", units.Size(800<<20), "The `SIZE` of the layers that make the model as heavy to load as real ones.")

	return command
}

// A request is slow from slowFactor times the warm 99th percentile of its shape on, and from slowFloor on.
const (
	slowFactor = 3
	slowFloor  = 50 * time.Millisecond
)

// batches are the shapes of the traffic.
var batches = []int{1, 2, 4, 8}

// Run carries out the comparison.
func (c *demoCmd) Run(ctx context.Context, std *stdio) error {
	dir, err := os.MkdirTemp("", "pilotlight-demo-")
	if err != nil {
		return fmt.Errorf("make a folder for the demo: %w", err)
	}
	std.remove(dir)
	demo := &demo{demoCmd: *c, out: std.out, screen: coldstart.NewScreen(std.out), dir: dir}
	if err := demo.prepare(ctx); err != nil {
		return err
	}
	pair, err := demo.compare(ctx)
	defer demo.screen.End()
	if pair != nil {
		defer func() { _ = pair.Stop() }()
	}
	if err != nil {
		return err
	}
	if c.JSON != "" {
		if err := writeJSON(c.JSON, demo.report); err != nil {
			return err
		}
	}
	if c.Check {
		if err := demo.report.Check(); err != nil {
			return err
		}
	}
	if c.Once {
		return nil
	}

	return demo.stayUp(ctx, pair)
}

// demo is one run of the comparison.
type demo struct {
	demoCmd

	out    io.Writer
	screen *coldstart.Screen
	dir    string
	stage  *coldstart.Stage
	// answers are the classes that a direct, warm call gives to each image.
	answers []int
	report  coldstart.Report
}

// prepare writes the heavy model and asks a warm backend, directly, for the answers that all arms are compared with.
func (d *demo) prepare(ctx context.Context) error {
	d.screen.Phase("preparing")
	model := filepath.Join(d.dir, "digits.onnx")
	if err := digits.WriteBallast(model, int64(d.Ballast)); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(d.dir, "servers.log"))
	if err != nil {
		return fmt.Errorf("make a log for the servers: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find our own program: %w", err)
	}
	d.stage = &coldstart.Stage{
		Backend: func(address string) []string {
			// A machine that starts a model server has not just read its model: each arm reads it from disk.
			if err := digits.Evict(model); err != nil {
				d.screen.Note(err.Error())
			}

			return []string{self, "onnx", "--model", model, "--name", "digits", "--listen", address, "--lazy", "--threads", "1"}
		},
		Sidecar: func(backend string, listen coldstart.SidecarAddresses) []string {
			return []string{self, "run", "--backend", backend, "--data", listen.Data, "--health", listen.Health, "--admin", listen.Admin}
		},
		InferPath: "/v2/models/digits/infer",
		ReadyPath: "/v2/health/ready",
		Rate:      d.Rate,
		Tail:      d.Tail.Std(),
		Deadline:  30 * time.Second,
		Request:   d.request,
		Read:      digits.ReadAnswer,
		Log:       log,
		Say:       d.screen.Note,
	}
	d.report.Coldness = fmt.Sprintf("each arm has a fresh process that says ready at once, loads a %s model from disk at its first request, and meets each of %d batch sizes for the first time; nothing sleeps", d.Ballast, len(batches))

	return d.learnAnswers(ctx)
}

// learnAnswers classifies every image directly, one by one, and says how that compares with the labels.
func (d *demo) learnAnswers(ctx context.Context) error {
	answers, err := d.stage.Answers(ctx, len(digits.Images()), func(image int) []byte { return digits.Body(image) })
	if err != nil {
		return err
	}
	right := 0
	for image, answer := range answers {
		class, err := digits.ParseAnswer(answer)
		if err != nil {
			return err
		}
		if class[0] == digits.Labels()[image] {
			right++
		}
		d.answers = append(d.answers, class[0])
	}
	d.screen.Note(fmt.Sprintf("asked directly, the warm model reads %d of %d held-out digits as labelled; every arm is compared with these answers", right, len(answers)))

	return nil
}

// request returns the i-th request: real images, in a batch of a seeded random size.
func (d *demo) request(i int) coldstart.Request {
	random := rand.New(rand.NewPCG(1, uint64(i))) //nolint:gosec // traffic must be the same in each arm
	batch := batches[random.IntN(len(batches))]
	images := make([]int, batch)
	for at := range images {
		images[at] = random.IntN(len(d.answers))
	}

	return d.classify(images)
}

// classify returns the request to classify images, and the answer that is expected.
func (d *demo) classify(images []int) coldstart.Request {
	want := make([]int, len(images))
	for at, image := range images {
		want[at] = d.answers[image]
	}

	return coldstart.Request{Shape: fmt.Sprintf("batch=%d", len(images)), Body: digits.Body(images...), Want: digits.FormatAnswer(want)}
}

// compare runs the three arms, then the faults. The pair it returns is up and warm.
func (d *demo) compare(ctx context.Context) (*coldstart.Pair, error) {
	d.screen.Phase("direct: clients send at once and retry")
	direct, err := d.stage.Direct(ctx)
	if err != nil {
		return nil, err
	}
	d.screen.Phase("server_ready: clients wait for the server's own ready endpoint")
	serverReady, err := d.stage.ServerReady(ctx)
	if err != nil {
		return nil, err
	}
	d.screen.Phase("pilotlight: clients send at once, to Pilotlight")
	pilotlight, pair, err := d.stage.Pilotlight(ctx)
	if err != nil {
		return nil, err
	}
	d.screen.Phase("what Pilotlight adds to a warm request")
	added, err := d.stage.Added(ctx, pair)
	if err != nil {
		return pair, err
	}
	d.fill(direct, serverReady, pilotlight, added)
	if err := d.draw(direct, serverReady, pilotlight); err != nil {
		return pair, err
	}
	d.screen.Table(d.report)
	if err := d.faults(ctx, pair); err != nil {
		return pair, err
	}
	d.screen.End()

	return pair, nil
}

// fill reads the report off the arms. Warm is what each arm's clients saw in the second half of its tail.
func (d *demo) fill(direct, serverReady, pilotlight coldstart.Run, added time.Duration) {
	d.report.SlowIs = fmt.Sprintf("more than %d times the warm 99th percentile of its batch size, measured in the second half of the same arm's %s after ready, and at least %s, "+
		"which a shared machine takes by itself now and then", slowFactor, d.Tail, slowFloor)
	arms := map[string]coldstart.ArmReport{}
	for name, run := range map[string]coldstart.Run{"direct": direct, "server_ready": serverReady, "pilotlight": pilotlight} {
		arms[name] = coldstart.ArmOf(run, d.Tail.Std(), coldstart.Limit{Factor: slowFactor, Floor: slowFloor})
	}
	ours := arms["pilotlight"]
	extra := coldstart.Seconds(pilotlight.Ready - serverReady.Ready)
	addedUS := float64(added.Microseconds())
	ours.ExtraNotReadyS, ours.AddedP50US = &extra, &addedUS
	arms["pilotlight"] = ours
	d.report.Arms = arms
}

// draw writes the picture, if one is wanted.
func (d *demo) draw(direct, serverReady, pilotlight coldstart.Run) (err error) {
	if d.SVG == "" {
		return nil
	}
	file, err := os.Create(d.SVG)
	if err != nil {
		return fmt.Errorf("draw the picture: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()

	return coldstart.Picture{
		Until: pilotlight.Ready + d.Tail.Std()/2,
		Lanes: []coldstart.Lane{
			{Name: "direct", About: "clients send at once and retry", Run: direct},
			{Name: "server_ready", About: "clients wait for the server's own ready endpoint", Run: serverReady},
			{Name: "pilotlight", About: "clients send at once, to Pilotlight, which holds them until the model is warm", Run: pilotlight},
		},
	}.WriteSVG(file)
}

// stayUp keeps the last pair running and says what to try.
func (d *demo) stayUp(ctx context.Context, pair *coldstart.Pair) error {
	sample := filepath.Join(d.dir, "digit.json")
	if err := os.WriteFile(sample, digits.Body(0), 0o600); err != nil {
		return fmt.Errorf("write a sample request: %w", err)
	}
	lines := []string{
		"", "Pilotlight and its backend stay up; ctrl-c ends both. Worth trying:", "",
		fmt.Sprintf("  curl -si %s -d @%s    # a %d, by its label; the class with the highest of the 10 scores", pair.InferURL(), sample, digits.Labels()[0]),
		fmt.Sprintf("  curl -s '%s?verbose'", pair.ReadyURL()),
		fmt.Sprintf("  curl -s http://%s/statusz?pretty", pair.Sidecar.Admin), "",
	}
	if _, err := io.WriteString(d.out, strings.Join(lines, "\n")+"\n"); err != nil {
		return fmt.Errorf("print what to try: %w", err)
	}
	<-ctx.Done()

	return nil
}

func writeJSON(path string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil { //nolint:gosec // figures are no secret
		return fmt.Errorf("write figures: %w", err)
	}

	return nil
}
