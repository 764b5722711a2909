//go:build cgo && !noonnx

package onnx

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"

	ort "github.com/yalue/onnxruntime_go"
)

// session is a loaded model. run may be called by any number of goroutines; each call holds a thread.
type session struct {
	signature signature
	dynamic   *ort.DynamicAdvancedSession
}

// newSession loads a model. It cannot be cancelled.
func newSession(path string, s signature, settings Settings) (*session, error) {
	inputs, outputs := make([]string, len(s.inputs)), make([]string, len(s.outputs))
	for i, info := range s.inputs {
		inputs[i] = info.name
	}
	for i, info := range s.outputs {
		outputs[i] = info.name
	}
	loaded := &session{signature: s}
	load := func(provider Provider) error {
		options, err := sessionOptions(provider, settings)
		if err != nil {
			return err
		}
		defer options.Destroy() //nolint:errcheck // it returns nil
		loaded.dynamic, err = ort.NewDynamicAdvancedSession(path, inputs, outputs, options)

		return err
	}
	if settings.Provider != CPU {
		err := keepSignals(func() error { return load(settings.Provider) })
		if err == nil {
			return loaded, nil
		}
		if !settings.AllowCPU {
			return nil, fmt.Errorf("load model %s on %s: it would have fallen back to the CPU, which is not allowed: %w", path, settings.Provider, err)
		}
		settings.Logger.Warn("model fell back to the CPU", "path", path, "provider", settings.Provider.String(), "error", err)
	}
	if err := load(CPU); err != nil {
		return nil, fmt.Errorf("load model %s: %w", path, err)
	}

	return loaded, nil
}

// sessionOptions asks for what a server beside others needs: few threads, which sleep when there is nothing to do.
func sessionOptions(provider Provider, settings Settings) (options *ort.SessionOptions, err error) {
	options, err = ort.NewSessionOptions()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, options.Destroy())
		}
	}()
	err = errors.Join(
		options.SetIntraOpNumThreads(settings.Threads),
		options.SetInterOpNumThreads(1),
		options.SetLogSeverityLevel(ort.LoggingLevelError),
		options.AddSessionConfigEntry("session.intra_op.allow_spinning", "0"),
		options.AddSessionConfigEntry("session.inter_op.allow_spinning", "0"),
	)
	if err == nil && provider != CPU && !settings.AllowCPU {
		// The proof: no node of the graph may end on the CPU.
		err = options.AddSessionConfigEntry("session.disable_cpu_ep_fallback", "1")
	}
	if err != nil {
		return options, err
	}
	switch provider {
	case CUDA:
		return options, appendCUDA(options, settings.Options)
	case TensorRT:
		return options, appendTensorRT(options, settings.Options)
	case CPU:
	}

	return options, nil
}

func appendCUDA(options *ort.SessionOptions, given map[string]string) error {
	cuda, err := ort.NewCUDAProviderOptions()
	if err != nil {
		return err
	}
	defer cuda.Destroy() //nolint:errcheck // it returns nil
	// The exhaustive search that is the default costs half a second for each new shape and finds nothing better.
	merged := map[string]string{"cudnn_conv_algo_search": "HEURISTIC"}
	maps.Copy(merged, given)
	if err := cuda.Update(merged); err != nil {
		return err
	}

	return options.AppendExecutionProviderCUDA(cuda)
}

func appendTensorRT(options *ort.SessionOptions, given map[string]string) error {
	tensorRT, err := ort.NewTensorRTProviderOptions()
	if err != nil {
		return err
	}
	defer tensorRT.Destroy() //nolint:errcheck // it returns nil
	if len(given) > 0 {
		if err := tensorRT.Update(given); err != nil {
			return err
		}
	}

	return options.AppendExecutionProviderTensorRT(tensorRT)
}

// run infers. The inputs are those of the signature, in its order. When ctx ends, the run ends after the operator it is in.
func (s *session) run(ctx context.Context, inputs []tensor) ([]tensor, error) {
	given, taken := make([]ort.Value, 0, len(inputs)), make([]ort.Value, len(s.signature.outputs))
	defer func() {
		for _, value := range append(given, taken...) {
			if value != nil {
				value.Destroy() //nolint:errcheck,gosec // it returns nil
			}
		}
		runtime.KeepAlive(inputs) // their slices are the tensors' memory
	}()
	for _, one := range inputs {
		value, err := carriers[one.datatype].give(one)
		if err != nil {
			return nil, fmt.Errorf("give input %q: %w", one.name, err)
		}
		given = append(given, value)
	}
	for i, info := range s.signature.outputs {
		// The binding cannot make a scalar by itself.
		if info.ranked && len(info.shape) == 0 {
			scalar, err := carriers[info.datatype].scalar()
			if err != nil {
				return nil, fmt.Errorf("prepare output %q: %w", info.name, err)
			}
			taken[i] = scalar
		}
	}
	if err := s.runUntil(ctx, given, taken); err != nil {
		return nil, err
	}
	outputs := make([]tensor, len(taken))
	for i, info := range s.signature.outputs {
		values, err := carriers[info.datatype].take(taken[i])
		if err != nil {
			return nil, fmt.Errorf("take output %q: %w", info.name, err)
		}
		outputs[i] = tensor{name: info.name, datatype: info.datatype, shape: append([]int64{}, taken[i].GetShape()...), values: values}
	}

	return outputs, nil
}

func (s *session) runUntil(ctx context.Context, given, taken []ort.Value) error {
	options, err := ort.NewRunOptions()
	if err != nil {
		return err
	}
	told := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(told)
		_ = options.Terminate()
	})
	defer func() { // also when the binding panics
		if !stop() {
			<-told // the options must outlive the call that uses them
		}
		options.Destroy() //nolint:errcheck,gosec // it returns nil
	}()
	err = s.dynamic.RunWithOptions(given, taken, options)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}

	return err
}

// close gives the model's memory back. Nothing may be running.
func (s *session) close() error { return s.dynamic.Destroy() }
