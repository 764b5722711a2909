#!/usr/bin/env bash
# Writes inference.pb.go and inference_grpc.pb.go from inference.proto, with pinned tools that stay in .tmp.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
tools=$(cd ../.. && pwd)/.tmp
export GOBIN=$tools/bin
[ -x "$tools/protoc/bin/python" ] || python3 -m venv "$tools/protoc"
"$tools/protoc/bin/python" -m pip install --quiet --disable-pip-version-check grpcio-tools==1.85.1
go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
PATH=$GOBIN:$PATH "$tools/protoc/bin/python" -m grpc_tools.protoc --proto_path=. \
	--go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative inference.proto
# The generated files would carry the proto's words as a second and third package doc; doc.go has ours.
sed -i '/^\/\/ The gRPC half of the Open/,/^\/\/ protocol.s, the words are ours\.$/d' inference.pb.go inference_grpc.pb.go
sed -i '1{/^$/d}' inference.pb.go inference_grpc.pb.go
