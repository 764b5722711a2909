package proxy

import "strconv"

// gRPC status codes, as far as they are used by their names.
const (
	grpcUnknown           = 2
	grpcInvalidArgument   = 3
	grpcDeadlineExceeded  = 4
	grpcPermissionDenied  = 7
	grpcResourceExhausted = 8
	grpcUnimplemented     = 12
	grpcInternal          = 13
	grpcUnavailable       = 14
	grpcDataLoss          = 15
)

// grpcCodes are gRPC's, by their numbers.
var grpcCodes = [...]string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED",
	"FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
}

// noCode stands for no status at all.
const noCode = len(grpcCodes)

// codeIndex reads a grpc-status. What is no status is UNKNOWN, as clients read it.
func codeIndex(status string) int {
	if status == "" {
		return noCode
	}
	number, err := strconv.ParseUint(status, 10, 8)
	if err != nil || int(number) >= len(grpcCodes) {
		return grpcUnknown
	}

	return int(number)
}

// blamesServer says whether a gRPC status is an error of the server by OpenTelemetry's conventions.
func blamesServer(code int) bool {
	switch code {
	case grpcUnknown, grpcDeadlineExceeded, grpcUnimplemented, grpcInternal, grpcUnavailable, grpcDataLoss:
		return true
	default:
		return false
	}
}
