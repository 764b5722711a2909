package pages

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
)

// Sizes and marks of the records of a zip, by its specification.
const (
	zipEndSize, zipEnd64Size, zipLocatorSize = 22, 56, 20
	zipEntrySize, zipLocalSize               = 46, 30
	zipLongestComment                        = 1<<16 - 1

	zipEndMark, zipEnd64Mark, zipLocatorMark = "PK\x05\x06", "PK\x06\x06", "PK\x06\x07"
	zipEntryMark, zipLocalMark               = "PK\x01\x02", "PK\x03\x04"
	// zip64 is the kind of the extra field that holds what 4 bytes could not.
	zip64 = 1
)

// readZip returns the directory at the end of the file, which is read first, and then each entry in its order. The standard library's reader would do, if it did
// not make room for as many entries as a large file could have because a number in it says so.
func readZip(file io.ReaderAt, size int64) ([]Range, error) {
	directory, err := zipDirectory(file, size)
	if err != nil {
		return nil, err
	}
	if directory.Length > maxHeader {
		return nil, FormatZip.fault(directory.Offset, "a directory of %d bytes, expected at most %d", directory.Length, int64(maxHeader))
	}
	ranges := []Range{{directory.Offset, size - directory.Offset}}
	content := make([]byte, directory.Length)
	if err := fill(file, content, directory.Offset); err != nil {
		return nil, FormatZip.fault(directory.Offset, "the directory cannot be read: %v", err)
	}
	for rest := content; len(rest) > 0; {
		place := directory.Offset + int64(len(content)-len(rest))
		if len(rest) < zipEntrySize || !bytes.HasPrefix(rest, []byte(zipEntryMark)) {
			return nil, FormatZip.fault(place, "expected an entry of the directory")
		}
		name, extra, comment := little(rest[28:30]), little(rest[30:32]), little(rest[32:34])
		length := zipEntrySize + name + extra + comment
		if length > int64(len(rest)) {
			return nil, FormatZip.fault(place, "an entry of %d bytes, expected it within the directory", length)
		}
		packed, header := zipSizes(rest, rest[zipEntrySize+name:zipEntrySize+name+extra])
		if packed < 0 || header < 0 || header >= directory.Offset || packed > directory.Offset-header {
			return nil, FormatZip.fault(place, "%d bytes at %d, expected them before the directory", packed, header)
		}
		local := make([]byte, zipLocalSize)
		if err := fill(file, local, header); err != nil || !bytes.HasPrefix(local, []byte(zipLocalMark)) {
			return nil, FormatZip.fault(header, "expected the header of an entry")
		}
		whole := zipLocalSize + little(local[26:28]) + little(local[28:30]) + packed
		if whole > directory.Offset-header {
			return nil, FormatZip.fault(header, "an entry of %d bytes, expected it before the directory", whole)
		}
		ranges = append(ranges, Range{header, whole})
		rest = rest[length:]
	}

	return ranges, nil
}

// zipDirectory finds the directory by the record at the end of the file.
func zipDirectory(file io.ReaderAt, size int64) (Range, error) {
	tail := make([]byte, min(size, zipEndSize+zipLongestComment))
	if err := fill(file, tail, size-int64(len(tail))); err != nil {
		return Range{}, FormatZip.fault(size-int64(len(tail)), "the end cannot be read: %v", err)
	}
	found := bytes.LastIndex(tail, []byte(zipEndMark))
	if found < 0 || len(tail)-found < zipEndSize {
		return Range{}, FormatZip.fault(size, "expected the end of a directory in the last %d bytes", len(tail))
	}
	end := size - int64(len(tail)-found)
	directory := Range{little(tail[found+16 : found+20]), little(tail[found+12 : found+16])}
	limit := end
	if directory.Offset == math.MaxUint32 || directory.Length == math.MaxUint32 {
		var err error
		if directory, limit, err = zip64Directory(file, end); err != nil {
			return Range{}, err
		}
	}
	if directory.Offset < 0 || directory.Length < 0 || directory.Offset > limit || directory.Length > limit-directory.Offset {
		return Range{}, FormatZip.fault(end, "a directory of %d bytes at %d, expected it before its end at %d", directory.Length, directory.Offset, limit)
	}

	return directory, nil
}

// zip64Directory reads the record of an archive beyond 4 GiB, and returns where that is as well.
func zip64Directory(file io.ReaderAt, end int64) (Range, int64, error) {
	locator := make([]byte, zipLocatorSize)
	place := end - zipLocatorSize
	if place < 0 || fill(file, locator, place) != nil || !bytes.HasPrefix(locator, []byte(zipLocatorMark)) {
		return Range{}, 0, FormatZip.fault(end, "expected the locator of a zip64 directory before the end")
	}
	at := little(locator[8:16])
	record := make([]byte, zipEnd64Size)
	if at < 0 || at > place-zipEnd64Size || fill(file, record, at) != nil || !bytes.HasPrefix(record, []byte(zipEnd64Mark)) {
		return Range{}, 0, FormatZip.fault(place+8, "the end of a zip64 directory at %d, where none is", at)
	}

	return Range{little(record[48:56]), little(record[40:48])}, at, nil
}

// zipSizes returns the packed size of an entry and the offset of its header, from the extra field where they did not fit. What is beyond an int64 is negative.
func zipSizes(entry, extra []byte) (packed, header int64) {
	packed, header = little(entry[20:24]), little(entry[42:46])
	for len(extra) >= 4 {
		kind, length := little(extra[:2]), little(extra[2:4])
		if length > int64(len(extra)-4) {
			break
		}
		field := extra[4 : 4+length]
		extra = extra[4+length:]
		if kind != zip64 {
			continue
		}
		if little(entry[24:28]) == math.MaxUint32 && len(field) >= 8 { // the unpacked size comes first
			field = field[8:]
		}
		for _, value := range []*int64{&packed, &header} {
			if *value == math.MaxUint32 && len(field) >= 8 {
				*value, field = little(field[:8]), field[8:]
			}
		}
	}

	return packed, header
}

// fill reads a part of the file whole.
func fill(file io.ReaderAt, into []byte, offset int64) error {
	n, err := file.ReadAt(into, offset)
	if n == len(into) {
		return nil
	}

	return err
}

// little reads a number of up to 8 bytes; one beyond an int64 comes out negative.
func little(number []byte) int64 {
	var padded [8]byte
	copy(padded[:], number)

	return int64(binary.LittleEndian.Uint64(padded[:])) //nolint:gosec // meant: see above
}
