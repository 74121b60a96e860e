package verify

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/mortarmq/mortarmq/node/op"
)

// resum makes the checksum of a segment's header right again.
func resum(b []byte) {
	binary.BigEndian.PutUint32(b[60:], crc32.Checksum(b[:60], op.Castagnoli))
}
