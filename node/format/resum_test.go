package format

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/mortarmq/mortarmq/node/op"
)

// resum makes the checksum of a segment's header right again.
func resum(b []byte) {
	binary.BigEndian.PutUint32(b[60:], crc32.Checksum(b[:60], op.Castagnoli))
}

// resumRecord makes the checksum of a record right again.
func resumRecord(b []byte) {
	binary.BigEndian.PutUint32(b[4:], crc32.Checksum(b[8:], op.Castagnoli))
}
