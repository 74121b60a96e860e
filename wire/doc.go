// Package wire is the client protocol of MortarMQ, version 1: frames, the fifteen frame ops, the error codes and the
// limits. It is pure. It moves no bytes, keeps no state but that of one FrameReader per connection, reads no clock, and
// knows nothing of topics or groups beyond what their names may look like. Broker, client, simulator and checker share it.
//
// # The life of a frame
//
// A sender fills a struct (Pub, Ack, ...) and calls Append, which appends the whole frame: length, op, payload. A large
// value is left where it is: AppendHeader appends everything in front of it, with the right length, and the value is
// sent behind. Results travel in OK frames and have structs of their own (PubResult, ...) with AppendOK; AppendOKEmpty
// and AppendErr make the rest.
//
// A receiver feeds what arrived to its FrameReader and takes the complete frames out: an op and a payload that points into
// the received bytes where the frame arrived whole. The payload goes to Decode of the op's struct, whose byte slices point
// into the payload in turn. So a value is borrowed all the way from the receive buffer; whoever keeps it copies it.
//
// What does not obey is refused with a *DecodeError, which carries the code to answer with and a text for its reader.
// Refused frames close the connection (CodeInfo.Close); names and producer fields that break a rule do not, and have
// checks of their own: CheckTopicName, Pub.CheckProducer, Declare.CheckPartitionCount.
//
// # Invariants
//
//	W1  All integers are big-endian. A frame's length counts the op byte and the payload, 1 to MaxFrameLen.
//	W2  Nothing is allocated because of a length that was declared; Decode allocates nothing at all, neither for a good
//	    payload nor for a bad one.
//	W3  Decode accepts a payload only if every rule of the specification that can be judged from the frame alone holds:
//	    lengths, enumerations, reserved fields, group names.
//	W4  Bytes behind the last known field are ignored where a flags bit that is not known here is set, and refused
//	    otherwise; ops without flags refuse them always. So Append of what Decode accepted gives the same bytes back,
//	    unless an unknown flag was set.
//	W5  Append panics rather than write a frame that W1 or a length field cannot hold: the stream behind it would be
//	    nonsense. Only the text of an ERR is cut instead.
//	W6  A decoded slice has no spare capacity: appending to it cannot overwrite its neighbour.
//
// FrameReader has invariants of its own, R1 to R4.
//
// # What it does not do
//
// It does not pair requests with answers, count credit, check tokens or tell a client's ops from a server's, except
// that a FrameReader can be told that its peer is a client. Replication and administration have other protocols.
//
// There is no common interface of the fifteen ops and no Decode that returns one: callers switch on Frame.Op and decode
// into a struct that they reuse, which costs no allocation and no dynamic call per message.
package wire
