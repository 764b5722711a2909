package digits

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Bounds of the ballast in bytes. The weights lie in a file of their own, so the 2 GiB limit of a protobuf does not apply.
const (
	MinBallast = 32 << 20
	MaxBallast = 16 << 30
)

const (
	width      = 1024 // of each expert's layers; a layer is 4 MiB
	layerSize  = 4 * width * width
	maxLayers  = 6 // of an expert: what a warm run has to multiply through, 24 MiB
	maxExperts = 16
	row        = 64       // bytes of the table's rows
	block      = 64 << 10 // bytes that the kernel maps at one page fault, at most (fault-around)
	page       = 4096     // alignment of each weight in the file, which ONNX Runtime needs to map it
	quarters   = 4        // of the table, one for each remainder of a division by 5: 1, 2, 4 and 8 leave 1, 2, 4 and 3
)

// WriteBallast writes the classifier, weighed down by about size bytes of weights that every run uses and that change no
// answer, not by a bit: path is the model, path + ".data" its weights. What makes it cold is what makes a big model cold:
//
//   - Loading packs a third of the weights, the layers of several experts, for the processor's matrix kernels. The batch
//     size chooses which expert a run multiplies through.
//   - The rest is an embedding table. ONNX Runtime maps it, so a page of it is read when a run first wants it; and a batch
//     size looks up rows of its own, in its own quarter of the table (batch sizes that leave the same remainder when
//     divided by 5 share one). The first run of a batch size therefore pays for its quarter: from memory where the file was
//     in the page cache, from disk where it was not.
//
// The rows depend on the batch size alone, so a warm-up with any input warms what real images need. The expert's output,
// multiplied by zero, is added to the scores: ONNX Runtime cannot know that it is finite, so it has to compute it.
//
// When WriteBallast returns, the files are on disk and, as on a machine that never read them, not in the page cache (see
// [Evict]).
func WriteBallast(path string, size int64) error {
	if size < MinBallast || size > MaxBallast {
		return fmt.Errorf("write ballast of %d bytes: expected %d to %d", size, int64(MinBallast), int64(MaxBallast))
	}
	weights, err := createWeights(path + ".data")
	if err != nil {
		return err
	}
	ballasted, err := addBallast(weights, size)
	err = errors.Join(err, weights.close())
	if err != nil {
		return err
	}
	// The model last: whoever finds it may load it.
	if err := os.WriteFile(path, ballasted, 0o644); err != nil { //nolint:gosec // a model is for everybody to read
		return fmt.Errorf("write ballast: %w", err)
	}

	return Evict(path)
}

// Evict takes a model that [WriteBallast] wrote out of the page cache, so that the next server to load it reads it from disk.
// Nothing may have it mapped at that moment. File systems that live in memory keep it: there it does nothing.
func Evict(path string) error {
	for _, name := range []string{path, path + ".data"} {
		file, err := os.Open(name) //nolint:gosec // the caller names it
		if err != nil {
			return fmt.Errorf("evict model: %w", err)
		}
		err = errors.Join(file.Sync(), unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED), file.Close())
		if err != nil {
			return fmt.Errorf("evict model %s: %w", name, err)
		}
	}

	return nil
}

// addBallast returns the classifier with the ballast in its graph, having written the ballast's weights.
func addBallast(weights *weightFile, size int64) ([]byte, error) {
	third := size / 3 / layerSize
	layers := int(min(max(third/4, 1), maxLayers))
	experts := int(min(max(third/int64(layers), 2), maxExperts))
	blocks := (size - int64(experts*layers)*layerSize) / block

	return rewrite(model, modelGraph, func(graph []byte) ([]byte, error) {
		// The classifier's own answer steps back behind another name; its graph stays as it is.
		rest, err := rewrite(graph, graphNode, func(one []byte) ([]byte, error) {
			return rewrite(one, nodeOutput, func(name []byte) ([]byte, error) {
				if string(name) == Output {
					return []byte("plain_scores"), nil
				}

				return name, nil
			})
		})
		if err != nil {
			return nil, fmt.Errorf("read the classifier: %w", err)
		}
		random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // ballast need not be secret, but the same each time
		for _, part := range []func() (nodes, constants []message, err error){
			func() ([]message, []message, error) { return lookup(weights, random, blocks) },
			func() ([]message, []message, error) { return choose(weights, experts, layers) },
			join,
		} {
			nodes, constants, err := part()
			if err != nil {
				return nil, err
			}
			rest = appendTo(rest, nodes, constants)
		}

		return rest, nil
	})
}

func appendTo(graph message, nodes, constants []message) message {
	for _, one := range nodes {
		graph = graph.bytes(graphNode, one)
	}
	for _, one := range constants {
		graph = graph.bytes(graphInitializer, one)
	}

	return graph
}

// lookup is the part that reads the table: the batch size chooses a list of rows, one in each block of a quarter of the
// table, in no order. Their sum and the image make "hidden", [batch,width].
func lookup(weights *weightFile, random *rand.Rand, blocks int64) (nodes, constants []message, err error) {
	table, err := weights.tensor("ballast_table", 0.01, blocks*block/row, row/4)
	if err != nil {
		return nil, nil, err
	}
	share := blocks / quarters
	rows := make([]int64, 0, (quarters+1)*share)
	for quarter := range int64(quarters) {
		for _, i := range random.Perm(int(share)) {
			rows = append(rows, (quarter*share+int64(i))*(block/row)+random.Int64N(block/row))
		}
	}
	rows = append(slices.Clone(rows[(quarters-1)*share:]), rows...) // remainder 0 has no quarter of its own
	spread := make([]float32, Side*Side*width)
	for i := range spread {
		spread[i] = (random.Float32() - 0.5) / 50
	}

	nodes = []message{
		node("Shape", []string{Input}, []string{"ballast_shape"}),
		node("Gather", []string{"ballast_shape", "ballast_0"}, []string{"ballast_batch"}),
		node("Mod", []string{"ballast_batch", "ballast_5"}, []string{"ballast_quarter"}),
		node("Gather", []string{"ballast_rows", "ballast_quarter"}, []string{"ballast_chosen"}),
		node("Gather", []string{"ballast_table", "ballast_chosen"}, []string{"ballast_found"}),
		node("ReduceMean", []string{"ballast_found"}, []string{"ballast_memory"}, intAttribute("keepdims", 0)),
		node("Reshape", []string{Input, "ballast_flat"}, []string{"ballast_image"}),
		node("MatMul", []string{"ballast_image", "ballast_spread"}, []string{"ballast_spread_image"}),
		node("Add", []string{"ballast_spread_image", "ballast_memory"}, []string{"ballast_hidden"}),
	}
	constants = []message{
		table,
		int64s("ballast_rows", rows, quarters+1, share),
		int64s("ballast_0", []int64{0}),
		int64s("ballast_5", []int64{quarters + 1}),
		int64s("ballast_flat", []int64{-1, Side * Side}, 2),
		floats("ballast_spread", spread, Side*Side, width),
	}

	return nodes, constants, nil
}

// choose is the part with the experts: If the batch size divided by their number leaves 1 then expert 1, else if it leaves 2
// then expert 2, and so on. Their weights stand in the branches, because ONNX Runtime packs in advance only what stands
// beside its use.
func choose(weights *weightFile, experts, layers int) (nodes, constants []message, err error) {
	var otherwise message
	for number := experts - 1; number >= 0; number-- {
		name := "ballast_expert_" + strconv.Itoa(number)
		branch, err := expert(weights, name, layers)
		if err != nil {
			return nil, nil, err
		}
		if number == experts-1 {
			otherwise = branch

			continue
		}
		chosen, test, constant := name+"_chosen", name+"_test", name+"_number"
		nodes = []message{
			node("Equal", []string{"ballast_expert", constant}, []string{test}),
			node("If", []string{test}, []string{chosen}, graphAttribute("then_branch", branch), graphAttribute("else_branch", otherwise)),
		}
		constants = []message{int64s(constant, []int64{int64(number)})}
		otherwise = appendTo(message(nil).str(graphName, "without_"+name), nodes, constants).bytes(graphOutput, valueInfo(chosen))
	}
	nodes = append([]message{node("Mod", []string{"ballast_batch", "ballast_experts"}, []string{"ballast_expert"})}, nodes...)

	return nodes, append(constants, int64s("ballast_experts", []int64{int64(experts)})), nil
}

// expert returns a graph of layers that keep the size of what flows through them about the same.
func expert(weights *weightFile, name string, layers int) (message, error) {
	graph := message(nil).str(graphName, name)
	last := "ballast_hidden"
	for layer := range layers {
		here := name + "_" + strconv.Itoa(layer)
		constant, err := weights.tensor(here+"_weight", 0.05, width, width)
		if err != nil {
			return nil, err
		}
		graph = appendTo(graph, []message{
			node("MatMul", []string{last, here + "_weight"}, []string{here + "_product"}),
			node("Relu", []string{here + "_product"}, []string{here}),
		}, []message{constant})
		last = here
	}

	return graph.bytes(graphOutput, valueInfo(last)), nil
}

// join adds nothing, computed the long way, to the classifier's answer.
func join() (nodes, constants []message, err error) {
	return []message{
		node("ReduceMean", []string{"ballast_expert_0_chosen"}, []string{"ballast_mean"}, intAttribute("keepdims", 0)),
		node("Mul", []string{"ballast_mean", "ballast_nothing"}, []string{"ballast_zero"}),
		node("Add", []string{"plain_scores", "ballast_zero"}, []string{Output}),
	}, []message{floats("ballast_nothing", []float32{0})}, nil
}

// weightFile is the file of a model's external data, written front to back.
type weightFile struct {
	file   *os.File
	out    *bufio.Writer
	random *rand.PCG
	offset int64
}

func createWeights(path string) (*weightFile, error) {
	file, err := os.Create(path) //nolint:gosec // the caller names it
	if err != nil {
		return nil, fmt.Errorf("write ballast: %w", err)
	}

	return &weightFile{file: file, out: bufio.NewWriterSize(file, 1<<20), random: rand.NewPCG(3, 4)}, nil
}

// tensor appends random weights between -limit and limit and returns the TensorProto that points at them. They are random
// because a file system may leave out or share what repeats.
func (w *weightFile) tensor(name string, limit float32, dims ...int64) (message, error) {
	count := int64(1)
	for _, dim := range dims {
		count *= dim
	}
	start := w.offset
	var buffer [8]byte
	for i := int64(0); i < count; i += 2 {
		bits := w.random.Uint64()
		for half := range 2 {
			value := limit * (float32(uint32(bits>>(32*half))>>8)/(1<<23) - 1) //nolint:gosec // the cast takes one half of the bits
			binary.LittleEndian.PutUint32(buffer[4*half:], math.Float32bits(value))
		}
		if _, err := w.out.Write(buffer[:]); err != nil {
			return nil, fmt.Errorf("write ballast: %w", err)
		}
	}
	w.offset += 4 * count
	for ; w.offset%page != 0; w.offset++ {
		if err := w.out.WriteByte(0); err != nil {
			return nil, fmt.Errorf("write ballast: %w", err)
		}
	}

	return external(name, filepath.Base(w.file.Name()), start, 4*count, dims...), nil
}

func (w *weightFile) close() error {
	if err := errors.Join(w.out.Flush(), w.file.Sync(), w.file.Close()); err != nil {
		return fmt.Errorf("write ballast: %w", err)
	}

	return nil
}
