package warmup

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// tfRecord frames one record.
func tfRecord(content []byte) []byte {
	head := binary.LittleEndian.AppendUint64(nil, uint64(len(content)))
	head = binary.LittleEndian.AppendUint32(head, maskedChecksum(head))

	return binary.LittleEndian.AppendUint32(append(head, content...), maskedChecksum(content))
}

// tfLog is a PredictionLog whose log of that number has a request.
func tfLog(number protowire.Number, request string) []byte {
	log := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), request)

	return protowire.AppendBytes(protowire.AppendTag([]byte{0x0a, 0}, number, protowire.BytesType), log)
}

func TestMaskedChecksum(t *testing.T) {
	t.Parallel()
	// The check value of CRC-32C is e3069283; masking turns it by 15 bits and adds a constant.
	sum := uint32(0xe3069283)
	if got, want := maskedChecksum([]byte("123456789")), (sum>>15|sum<<17)+0xa282ead8; got != want {
		t.Errorf("got %08x, expected %08x", got, want)
	}
}

func TestImportTFServing(t *testing.T) {
	t.Parallel()
	var file []byte
	for _, number := range []protowire.Number{6, 2, 3, 4} {
		file = append(file, tfRecord(tfLog(number, "request"))...)
	}
	var out bytes.Buffer
	count, err := importTFServing(&out, bytes.NewReader(file))
	if err != nil || count != 4 {
		t.Fatalf("%d requests, %v", count, err)
	}
	decoder := json.NewDecoder(&out)
	for _, method := range []string{"Predict", "Classify", "Regress", "MultiInference"} {
		var line recorded
		if err := decoder.Decode(&line); err != nil {
			t.Fatal(err)
		}
		request, err := line.request()
		if err != nil || request.Path != "/tensorflow.serving.PredictionService/"+method || string(request.Body) != "request" || !request.GRPC {
			t.Errorf("%s: got %+v, %v", method, request, err)
		}
	}
}

func TestImportTFServingRefuses(t *testing.T) {
	t.Parallel()
	good := tfRecord(tfLog(6, "request"))
	flipped := func(at int) string {
		broken := bytes.Clone(good)
		broken[at] ^= 1

		return string(good) + string(broken)
	}
	huge := binary.LittleEndian.AppendUint64(nil, importBody+1)
	huge = binary.LittleEndian.AppendUint32(huge, maskedChecksum(huge))
	second := "record at byte 29: "
	for text, says := range map[string]string{
		"":                                         "no record",
		flipped(0):                                 second + "the checksum of its length",
		flipped(recordHead + 3):                    second + "its checksum is",
		string(good) + string(good[:5]):            second + "it ends after 5 bytes of its head",
		string(good) + string(good[:14]):           second + "after 2 bytes of 17: the file ends",
		string(good) + string(good[:12]):           second + "after 0 bytes of 17: the file ends",
		string(huge):                               "expected at most",
		string(tfRecord(tfLog(7, "x"))):            "streamed prediction",
		string(tfRecord([]byte("nonsense"))):       "read ",
		string(tfRecord(nil)):                      "no PredictionLog",
		strings.Repeat(string(good), 1001):         "at most 1000 requests",
		string(tfRecord([]byte{6<<3 | 2, 2, 1})):   "read field 6",
		string(tfRecord([]byte{6<<3 | 2, 1, 255})): "read message",
	} {
		if _, err := importTFServing(&bytes.Buffer{}, strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.40q: got %v, expected one that says %q", text, err, says)
		}
	}
}

func FuzzImportTFServing(f *testing.F) {
	f.Add(append(tfRecord(tfLog(6, "request")), tfRecord(tfLog(2, ""))...))
	f.Add(tfRecord(tfLog(6, "request"))[:20])
	f.Fuzz(func(t *testing.T, file []byte) {
		var out bytes.Buffer
		count, err := importTFServing(&out, bytes.NewReader(file))
		if err == nil && bytes.Count(out.Bytes(), []byte("\n")) != count {
			t.Errorf("%d requests in %d lines", count, bytes.Count(out.Bytes(), []byte("\n")))
		}
		// The framing hides the messages from a fuzzer that does not know checksums.
		_, _, _ = predictionLog(file)
	})
}
