package core

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/wire"
)

type consumer struct{}
type settles struct{}

func (*settles) init()                                              {}
func (c *Core) takeConsumer(in *Input)                              {}
func (c *Core) sendMembers()                                        {}
func (c *Core) sendSettles()                                        {}
func (c *Core) sendCredits()                                        {}
func (c *Core) sendPulls()                                          {}
func (c *Core) consumerTimers()                                     {}
func (c *Core) consumerDeadline(*consumer) clock.Instant            { return clock.Never }
func (c *Core) endConsumer(s *consumer, err Err)                    {}
func (c *Core) memberLost(s *consumer)                              {}
func (c *Core) settleLost(i int32)                                  {}
func (c *Core) onMsg(f wire.Frame) error                            { return nil }
func (c *Core) onNotice(*wire.Notice)                               {}
func (c *Core) onMemberOK(*request, []byte) error                   { return nil }
func (c *Core) onMemberErr(*request, Err, wire.CodeInfo)            {}
func (c *Core) consumerResolved(*consumer, wire.DeclareResult, Err) {}
