package warmup

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"google.golang.org/protobuf/encoding/protowire"
)

// Each record of a TFRecord file is a length of 8 bytes and its checksum of 4, the content and its checksum.
const (
	recordHead = 12
	recordTail = 4
)

// tfMethods are the calls that the logs in a PredictionLog stand for, by field.
var tfMethods = map[protowire.Number]string{2: "Classify", 3: "Regress", 4: "MultiInference", 6: "Predict"} //nolint:exhaustive // a number of a field, no enum

// ImportTFServing reads a tf_serving_warmup_requests file and writes the requests as lines for a step replay: gRPC calls, message for message as they were
// recorded. It returns how many there are.
func ImportTFServing(to io.Writer, path string) (int, error) {
	file, err := os.Open(path) //nolint:gosec // whoever imports says which file
	if err != nil {
		return 0, fmt.Errorf("import: %w", err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	count, err := importTFServing(to, file)
	if err != nil {
		return count, fmt.Errorf("import %s: %w", path, err)
	}

	return count, nil
}

func importTFServing(to io.Writer, source io.Reader) (written int, err error) {
	total := 0
	err = eachRecord(source, func(record []byte) error {
		method, message, err := predictionLog(record)
		if err != nil {
			return err
		}
		if total += len(message); written == importRequests || total > importTotal {
			return fmt.Errorf("expected at most %d requests of %d bytes together", importRequests, importTotal)
		}
		written++

		return json.NewEncoder(to).Encode(recorded{Path: "/tensorflow.serving.PredictionService/" + method, GRPC: true, Base64: message})
	})
	if err == nil && written == 0 {
		err = errors.New("it holds no record")
	}

	return written, err
}

// eachRecord calls f for each record of a TFRecord file. Errors name the offset at which the record begins.
func eachRecord(source io.Reader, f func(record []byte) error) error {
	for offset := int64(0); ; {
		record, err := readTFRecord(source)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = f(record)
		}
		if err != nil {
			return fmt.Errorf("record at byte %d: %w", offset, err)
		}
		offset += int64(recordHead + len(record) + recordTail)
	}
}

// readTFRecord reads one record; io.EOF: there is none any more.
func readTFRecord(source io.Reader) ([]byte, error) {
	var head [recordHead]byte
	if n, err := io.ReadFull(source, head[:]); err != nil {
		if n > 0 {
			err = fmt.Errorf("it ends after %d bytes of its head of %d", n, recordHead)
		}

		return nil, err
	}
	if got, want := maskedChecksum(head[:8]), binary.LittleEndian.Uint32(head[8:]); got != want {
		return nil, fmt.Errorf("the checksum of its length is %08x, expected %08x", got, want)
	}
	length := binary.LittleEndian.Uint64(head[:])
	if length > importBody {
		return nil, fmt.Errorf("it has %d bytes, expected at most %d", length, importBody)
	}
	body := make([]byte, length+recordTail)
	if n, err := io.ReadFull(source, body); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("the file ends") // which would else read as its proper end
		}

		return nil, fmt.Errorf("after %d bytes of %d: %w", n, len(body), err)
	}
	record := body[:length]
	if got, want := maskedChecksum(record), binary.LittleEndian.Uint32(body[length:]); got != want {
		return nil, fmt.Errorf("its checksum is %08x, expected %08x", got, want)
	}

	return record, nil
}

// maskedChecksum is CRC-32C, masked as TFRecord does it, so that a checksum of what holds checksums is no weaker.
func maskedChecksum(data []byte) uint32 {
	sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))

	return (sum>>15 | sum<<17) + 0xa282ead8
}

// predictionLog returns the request of a PredictionLog, and the method that takes it.
func predictionLog(record []byte) (method string, message []byte, err error) {
	err = eachField(record, func(number protowire.Number, value []byte) error {
		switch called := tfMethods[number]; {
		case called != "":
			method, message = called, nil

			return eachField(value, func(number protowire.Number, value []byte) error {
				if number == 1 {
					message = value
				}

				return nil
			})
		case number == 5, number == 7:
			return errors.New("it is a log of a session run or of a streamed prediction, which TensorFlow Serving does not warm by either")
		default:
			return nil
		}
	})
	if err == nil && message == nil {
		err = errors.New("it is no PredictionLog with a request")
	}

	return method, message, err
}

// eachField calls f for each field of a message that holds bytes; fields of other kinds are none that are read here.
func eachField(message []byte, f func(number protowire.Number, value []byte) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return fmt.Errorf("read message: %w", protowire.ParseError(n))
		}
		length := protowire.ConsumeFieldValue(number, kind, message[n:])
		if length < 0 {
			return fmt.Errorf("read field %d: %w", number, protowire.ParseError(length))
		}
		if kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(message[n:])
			if err := f(number, value); err != nil {
				return err
			}
		}
		message = message[n+length:]
	}

	return nil
}
