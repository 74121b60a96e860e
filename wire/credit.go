package wire

// CreditMode is how a CREDIT changes the window.
type CreditMode uint8

const (
	// CreditSet replaces the window; (0, 0) pauses.
	CreditSet CreditMode = 0
	// CreditAdd widens it.
	CreditAdd CreditMode = 1
)

const (
	creditSize       = 25
	creditResultSize = 20
)

var (
	errCreditShort      = malformed("CREDIT ends before its last field")
	errCreditTail       = malformed("CREDIT has bytes after its last field")
	errCreditMode       = malformed("CREDIT mode is neither 0 nor 1")
	errCreditReserved   = malformed("CREDIT reserved is not 0")
	errCreditResult     = malformed("OK of CREDIT ends before its last field")
	errCreditResultTail = malformed("OK of CREDIT has bytes after its last field")
)

// Credit is the payload of CREDIT (spec sections 2 and 3, "Consuming").
//
//	offset  size  field
//	0       2     subscription_id
//	2       4     membership_epoch
//	6       8     ownership_epoch, not interpreted in this version
//	14      1     mode
//	15      2     credit_count
//	17      4     credit_bytes
//	21      4     reserved, 0
type Credit struct {
	SubscriptionID  uint16
	MembershipEpoch uint32
	OwnershipEpoch  uint64
	Mode            CreditMode
	CreditCount     uint16
	CreditBytes     uint32
}

// Decode reads a payload. After an error m holds nothing of use.
func (m *Credit) Decode(p []byte) error {
	if len(p) < creditSize {
		return errCreditShort
	}
	if len(p) > creditSize {
		return errCreditTail
	}
	m.SubscriptionID = be.Uint16(p)
	m.MembershipEpoch = be.Uint32(p[2:])
	m.OwnershipEpoch = be.Uint64(p[6:])
	m.Mode = CreditMode(p[14])
	m.CreditCount = be.Uint16(p[15:])
	m.CreditBytes = be.Uint32(p[17:])
	if m.Mode > CreditAdd {
		return errCreditMode
	}
	if be.Uint32(p[21:]) != 0 {
		return errCreditReserved
	}
	return nil
}

// Append appends the whole frame.
func (m *Credit) Append(b []byte) []byte {
	b = appendHead(b, OpCredit, creditSize)
	b = be.AppendUint16(b, m.SubscriptionID)
	b = be.AppendUint32(b, m.MembershipEpoch)
	b = be.AppendUint64(b, m.OwnershipEpoch)
	b = append(b, byte(m.Mode))
	b = be.AppendUint16(b, m.CreditCount)
	b = be.AppendUint32(b, m.CreditBytes)
	return append(b, 0, 0, 0, 0)
}

// CreditResult is the result in CREDIT's OK.
//
//	offset  size  field
//	0       2     granted_count
//	2       4     granted_bytes
//	6       2     outstanding_count
//	8       4     outstanding_bytes
//	12      8     credit_epoch
type CreditResult struct {
	GrantedCount     uint16
	GrantedBytes     uint32
	OutstandingCount uint16
	OutstandingBytes uint32
	CreditEpoch      uint64
}

// Decode reads a result.
func (m *CreditResult) Decode(p []byte) error {
	if len(p) < creditResultSize {
		return errCreditResult
	}
	if len(p) > creditResultSize {
		return errCreditResultTail
	}
	m.GrantedCount = be.Uint16(p)
	m.GrantedBytes = be.Uint32(p[2:])
	m.OutstandingCount = be.Uint16(p[6:])
	m.OutstandingBytes = be.Uint32(p[8:])
	m.CreditEpoch = be.Uint64(p[12:])
	return nil
}

// AppendOK appends the whole OK frame.
func (m *CreditResult) AppendOK(b []byte) []byte {
	b = appendOKHead(b, OpCredit, creditResultSize)
	b = be.AppendUint16(b, m.GrantedCount)
	b = be.AppendUint32(b, m.GrantedBytes)
	b = be.AppendUint16(b, m.OutstandingCount)
	b = be.AppendUint32(b, m.OutstandingBytes)
	return be.AppendUint64(b, m.CreditEpoch)
}
