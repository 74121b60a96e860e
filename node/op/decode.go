package op

import "encoding/binary"

// Decode reads one op from the front of b into o and returns what follows it.
// Slices in o borrow from b. It allocates nothing; anything that Append could
// not have written is an error.
func (o *Op) Decode(b []byte) ([]byte, error) {
	if len(b) < 2 {
		return nil, errOp
	}
	*o = Op{Kind: Kind(b[0]), Flags: b[1]}
	if o.Kind == KindInvalid || o.Kind >= kindEnd || o.Flags >= flagsEnd {
		return nil, errOp
	}
	switch o.Kind {
	case KindPublish:
		return o.decodePublish(b)
	case KindDeliver, KindAck, KindNack, KindExpire:
		return o.decodeDelivery(b)
	case KindDeadLetter, KindRedrive:
		return o.decodeRecord(b)
	case KindEpochStart:
		return o.decodeSettings(b)
	default:
		return o.decodeNamed(b)
	}
}

func (o *Op) decodePublish(b []byte) ([]byte, error) {
	if len(b) < publishFixed {
		return nil, errOp
	}
	be := binary.BigEndian
	o.Topic = TopicID(be.Uint16(b[2:]))
	o.Partition = PartitionID(be.Uint16(b[4:]))
	keyLen, valueLen := int(be.Uint16(b[6:])), int(be.Uint32(b[8:]))
	o.ProducerID = be.Uint64(b[12:])
	o.ProducerSeq = be.Uint64(b[20:])
	o.Timestamp = be.Uint64(b[28:])
	b = b[publishFixed:]
	if keyLen > len(b) || valueLen > len(b)-keyLen {
		return nil, errOp
	}
	o.Key, o.Value = b[:keyLen:keyLen], b[keyLen:keyLen+valueLen:keyLen+valueLen]
	return b[keyLen+valueLen:], nil
}

func (o *Op) decodeDelivery(b []byte) ([]byte, error) {
	if len(b) < deliverFixed {
		return nil, errOp
	}
	be := binary.BigEndian
	if o.Kind == KindDeliver {
		o.Group = GroupID(be.Uint16(b[2:]))
		o.Partition = PartitionID(be.Uint16(b[4:]))
		o.Count = be.Uint32(b[8:])
		if be.Uint16(b[6:]) != 0 {
			return nil, errOp
		}
	} else {
		o.Reason = b[2]
		o.Group = GroupID(be.Uint16(b[4:]))
		o.Partition = PartitionID(be.Uint16(b[6:]))
		o.DelayMillis = be.Uint32(b[8:])
		if b[3] != 0 {
			return nil, errOp
		}
	}
	if be.Uint32(b[12:]) != 0 {
		return nil, errOp
	}
	o.Sequence = Sequence(be.Uint64(b[16:]))
	o.Delivery = DeliveryID(be.Uint64(b[24:]))
	o.Ownership = OwnershipEpoch(be.Uint64(b[32:]))
	return b[deliverFixed:], nil
}

func (o *Op) decodeRecord(b []byte) ([]byte, error) {
	if len(b) < recordFixed {
		return nil, errOp
	}
	be := binary.BigEndian
	o.Cause = b[2]
	o.Topic = TopicID(be.Uint16(b[4:]))
	o.Partition = PartitionID(be.Uint16(b[6:]))
	o.Group = GroupID(be.Uint16(b[8:]))
	keyLen, envLen, valueLen := int(be.Uint16(b[10:])), int(be.Uint16(b[12:])), int(be.Uint32(b[16:]))
	if b[3] != 0 || be.Uint16(b[14:]) != 0 || be.Uint32(b[20:]) != 0 {
		return nil, errOp
	}
	o.Sequence = Sequence(be.Uint64(b[24:]))
	o.Delivery = DeliveryID(be.Uint64(b[32:]))
	o.Ownership = OwnershipEpoch(be.Uint64(b[40:]))
	o.ProducerID = be.Uint64(b[48:])
	o.ProducerSeq = be.Uint64(b[56:])
	o.Timestamp = be.Uint64(b[64:])
	b = b[recordFixed:]
	if keyLen+envLen > len(b) || valueLen > len(b)-keyLen-envLen {
		return nil, errOp
	}
	o.Key, b = b[:keyLen:keyLen], b[keyLen:]
	o.Envelope, b = b[:envLen:envLen], b[envLen:]
	o.Value = b[:valueLen:valueLen]
	return b[valueLen:], nil
}

func (o *Op) decodeSettings(b []byte) ([]byte, error) {
	if len(b) < settingsFixed || b[24] != 0 || b[25] != 0 {
		return nil, errOp
	}
	be := binary.BigEndian
	o.Settings = Settings{
		DeliveryMaxAttempts:   be.Uint16(b[2:]),
		RetryBackoffBaseMs:    be.Uint32(b[4:]),
		RetryBackoffMaxMs:     be.Uint32(b[8:]),
		PartitionDefaultCount: be.Uint16(b[12:]),
		MaxTopics:             be.Uint16(b[14:]),
		ProducerWindowBytes:   be.Uint64(b[16:]),
	}
	return b[settingsFixed:], nil
}

func (o *Op) decodeNamed(b []byte) ([]byte, error) {
	if len(b) < namedFixed {
		return nil, errOp
	}
	be := binary.BigEndian
	o.Cause, o.StartPolicy = b[2], b[3]
	o.Topic = TopicID(be.Uint16(b[4:]))
	o.Partition = PartitionID(be.Uint16(b[6:]))
	o.Partitions = be.Uint16(b[8:])
	o.Group = GroupID(be.Uint16(b[10:]))
	nameLen := int(be.Uint16(b[12:]))
	if be.Uint16(b[14:]) != 0 {
		return nil, errOp
	}
	if o.Kind == KindForgetProducer {
		o.ProducerID = be.Uint64(b[16:])
	} else {
		o.Member = MemberID(be.Uint64(b[16:]))
	}
	o.Sequence = Sequence(be.Uint64(b[24:]))
	o.Mutation = be.Uint64(b[32:])
	b = b[namedFixed:]
	if nameLen > len(b) {
		return nil, errOp
	}
	o.Name = b[:nameLen:nameLen]
	return b[nameLen:], nil
}
