package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"github.com/mortarmq/mortarmq/wire"
)

// hashToken prints the digest line of the token on standard input, which may end
// in a newline that is not part of it.
func hashToken(_ context.Context, c *call) error {
	data, err := io.ReadAll(io.LimitReader(c.Stdin, wire.MaxFrameLenBeforeConnect))
	if err != nil {
		return err
	}
	token := strings.TrimRight(string(data), "\r\n")
	if token == "" {
		return usagef("the token on standard input is empty")
	}
	if len(token) > 65535 {
		return usagef("the token is longer than 65535 bytes")
	}
	sum := sha256.Sum256([]byte(token))
	_, err = fmt.Fprintln(c.Stdout, hex.EncodeToString(sum[:]))
	return err
}
