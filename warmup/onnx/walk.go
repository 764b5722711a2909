package onnx

import (
	"errors"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// walk calls each with the place of every length-delimited field of the message that lies in file[start:end]. It reads heads
// only, so that a file of gigabytes costs a few pages.
func walk(file io.ReaderAt, start, end int64, each func(number protowire.Number, start, end int64) error) error {
	for start < end {
		var buffer [2 * 10]byte // a tag and a length
		window := buffer[:min(int64(len(buffer)), end-start)]
		if _, err := file.ReadAt(window, start); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		number, kind, head := protowire.ConsumeTag(window)
		if head < 0 {
			return errNotONNX
		}
		if kind != protowire.BytesType {
			length := protowire.ConsumeFieldValue(number, kind, window[head:])
			if length < 0 {
				return errNotONNX
			}
			start += int64(head + length)

			continue
		}
		size, prefix := protowire.ConsumeVarint(window[head:])
		if prefix < 0 {
			return errNotONNX
		}
		start += int64(head + prefix)
		if size > uint64(end-start) { //nolint:gosec // start is at most end
			return errNotONNX
		}
		stop := start + int64(size) //nolint:gosec // at most end
		if err := each(number, start, stop); err != nil {
			return err
		}
		start = stop
	}

	return nil
}

// slurp reads a small part of a file whole.
func slurp(file io.ReaderAt, start, end int64) ([]byte, error) {
	const most = 1 << 20
	if end-start > most {
		return nil, errNotONNX
	}
	content := make([]byte, end-start)
	_, err := file.ReadAt(content, start)
	if errors.Is(err, io.EOF) {
		err = nil
	}

	return content, err
}
