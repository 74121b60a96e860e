package admin

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mortarmq/mortarmq/node"
	"github.com/mortarmq/mortarmq/node/format"
)

// Record is an item of /v1/tail. Key and Value are base64.
type Record struct {
	Partition   uint16 `json:"partition"`
	Sequence    uint64 `json:"sequence"`
	Time        string `json:"time"`
	ProducerID  uint64 `json:"producer_id"`
	ProducerSeq uint64 `json:"producer_seq"`
	Key         []byte `json:"key"`
	Value       []byte `json:"value"`
}

// Tail is the body of /v1/tail: Next goes into the next request's from.
type Tail struct {
	Items []Record `json:"items"`
	Next  []uint64 `json:"next"`
}

// tail takes topic, from (comma-separated, one per partition), back and max.
func (s *handler) tail(w http.ResponseWriter, r *http.Request) {
	q, err := tailQuery(r)
	if err != nil {
		bad("%v", err).reply(w)
		return
	}
	a, ok := s.ask(w, r, q)
	if !ok {
		return
	}
	body := Tail{Items: []Record{}, Next: a.Next}
	for i := range a.Records {
		body.Items = append(body.Items, recordBody(a.Partitions[i], &a.Records[i]))
	}
	reply(w, http.StatusOK, body)
}

func tailQuery(r *http.Request) (node.Query, error) {
	v := r.URL.Query()
	q := node.Query{Kind: node.QueryTail, Topic: v.Get("topic"), Max: 100}
	var err error
	if q.Topic == "" {
		return q, fmt.Errorf("topic is missing")
	}
	if s := v.Get("max"); s != "" {
		if q.Max, err = strconv.Atoi(s); err != nil || q.Max < 1 {
			return q, fmt.Errorf("max is not a positive number")
		}
	}
	if s := v.Get("back"); s != "" {
		if q.Back, err = strconv.ParseUint(s, 10, 64); err != nil {
			return q, fmt.Errorf("back is not a number")
		}
	}
	q.From, err = sequences(v.Get("from"), "from")
	return q, err
}

// sequences reads a list of numbers, one per partition.
func sequences(list, name string) ([]uint64, error) {
	if list == "" {
		return nil, nil
	}
	var numbers []uint64
	for _, part := range strings.Split(list, ",") {
		n, err := strconv.ParseUint(part, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s is not a list of numbers", name)
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

func recordBody(partition uint16, r *format.Record) Record {
	return Record{
		Partition: partition, Sequence: uint64(r.Sequence), Time: timeOf(r.Timestamp),
		ProducerID: r.ProducerID, ProducerSeq: r.ProducerSeq, Key: r.Key, Value: r.Value,
	}
}

// timeOf writes a time in Unix ms as RFC 3339 in UTC.
func timeOf(ms uint64) string {
	return time.UnixMilli(int64(ms)).UTC().Format("2006-01-02T15:04:05.000Z")
}
