package health

import (
	"context"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// maxListed bounds how many services List names, so that an answer stays below the 4 MiB that clients accept by default.
const maxListed = 1000

// services are what grpc.health.v1.Health calls so: "" is the pod, and each model is a service of its own by its name.
// One is SERVING exactly when /readyz, or /readyz?model=, says 200: whoever asks either way is told the same.
type services struct {
	machine  *Machine
	audience *audience
	closed   <-chan struct{} // ends all watches
}

// Check answers for one service at this moment. One that is not known is NOT_FOUND, never NOT_SERVING: a misspelt name is no sick model.
func (s *services) Check(_ context.Context, asked *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	found := serving(s.machine.Snapshot(), asked.GetService())
	if found == grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN {
		return nil, status.Error(codes.NotFound, "no such model")
	}

	return &grpc_health_v1.HealthCheckResponse{Status: found}, nil
}

// List answers for the pod and every model, all of the same moment.
func (s *services) List(context.Context, *grpc_health_v1.HealthListRequest) (*grpc_health_v1.HealthListResponse, error) {
	now := s.machine.Snapshot()
	if len(now.Models) >= maxListed {
		return nil, status.Errorf(codes.ResourceExhausted, "list services: there are %d models, expected fewer than %d; ask for each by its name", len(now.Models), maxListed)
	}
	listed := map[string]*grpc_health_v1.HealthCheckResponse{"": {Status: serving(now, "")}}
	for _, one := range now.Models {
		if utf8.ValidString(one.Name) { // any other name cannot be written in an answer, nor asked for
			listed[one.Name] = &grpc_health_v1.HealthCheckResponse{Status: serving(now, one.Name)}
		}
	}

	return &grpc_health_v1.HealthListResponse{Statuses: listed}, nil
}

// Watch answers for one service at once, then whenever its answer changes, until the caller leaves, the pod has stopped or the server closes.
// A model that is not known is SERVICE_UNKNOWN for as long as that is so. A caller that reads slowly misses what was in between, never what is so in the end.
func (s *services) Watch(asked *grpc_health_v1.HealthCheckRequest, stream grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse]) error {
	if !s.audience.join() {
		return status.Errorf(codes.ResourceExhausted, "watch service: %d watches are open, which is the limit", maxWatches)
	}
	defer s.audience.leave()
	told := grpc_health_v1.HealthCheckResponse_ServingStatus(-1)
	for {
		changed := s.audience.next() // before the look, so that no change falls in between
		now := s.machine.Snapshot()
		if found := serving(now, asked.GetService()); found != told {
			if err := stream.Send(&grpc_health_v1.HealthCheckResponse{Status: found}); err != nil {
				return err
			}
			told = found
		}
		if now.State == Stopped {
			return status.Error(codes.Unavailable, "the pod has stopped")
		}
		select {
		case <-changed:
		case <-s.closed:
			return status.Error(codes.Unavailable, "the server is closing")
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		}
	}
}

// serving is the answer for one service.
func serving(now Snapshot, service string) grpc_health_v1.HealthCheckResponse_ServingStatus {
	ready := now.Ready
	if service != "" {
		one, known := now.Model(service)
		if !known {
			return grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN
		}
		ready = one.Ready
	}
	if ready {
		return grpc_health_v1.HealthCheckResponse_SERVING
	}

	return grpc_health_v1.HealthCheckResponse_NOT_SERVING
}

var _ grpc_health_v1.HealthServer = (*services)(nil)
