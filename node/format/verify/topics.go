package verify

import (
	"slices"
	"sort"
	"strconv"

	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
)

// files of a partition, by the base sequence of their segment.
type segmentFiles struct {
	base              op.Sequence
	size              int64
	hasLog, hasIndex  bool
	irregular         bool // the segment
	name, indexedName string
}

// topics checks the segments of all partitions.
func (v *verifier) topics() {
	seen := make([]bool, len(v.positions))
	var files []string // in the place of directories
	for _, t := range v.list(format.TopicsDir) {
		dir := format.TopicsDir + "/" + t.Name
		topic, ok := format.ParseNumber(t.Name)
		if !ok || !t.Dir || topic > 1<<16-1 {
			v.add(Note, dir, 0, 0, "is not a topic's directory")
			files = append(files, dir)
			continue
		}
		if !v.knownTopic(op.TopicID(topic)) {
			v.add(Note, dir, 0, 0, "of no topic of the checkpoint: the journal makes it anew, or the next start removes it")
		}
		for _, p := range v.list(dir) {
			part, ok := format.ParseNumber(p.Name)
			if !ok || !p.Dir || part > 1<<16-1 {
				v.add(Note, dir+"/"+p.Name, 0, 0, "is not a partition's directory")
				files = append(files, dir+"/"+p.Name)
				continue
			}
			pos := format.Position{Topic: op.TopicID(topic), Partition: op.PartitionID(part)}
			i := sort.Search(len(v.positions), func(i int) bool {
				return key(v.positions[i].Topic, v.positions[i].Partition) >= key(pos.Topic, pos.Partition)
			})
			if i < len(v.positions) && v.positions[i].Topic == pos.Topic && v.positions[i].Partition == pos.Partition {
				pos, seen[i] = v.positions[i], true
			}
			v.partition(pos)
		}
	}
	for i, pos := range v.positions {
		dir := format.PartitionDir(pos.Topic, pos.Partition)
		switch {
		case seen[i]:
		case slices.Contains(files, dir), slices.Contains(files, format.TopicsDir+"/"+strconv.Itoa(int(pos.Topic))):
			v.add(Damage, dir, 0, 1, "is not a directory")
		case pos.Last > 0:
			v.add(Damage, dir+"/"+format.SegmentName(1, format.SegmentSuffix), 0, 1, "the partition's directory is missing")
		}
	}
}

func (v *verifier) knownTopic(topic op.TopicID) bool {
	return slices.ContainsFunc(v.positions, func(p format.Position) bool { return p.Topic == topic })
}

// partition checks the files of one partition up to its position, and looks at
// what is later.
func (v *verifier) partition(pos format.Position) {
	dir := format.PartitionDir(pos.Topic, pos.Partition)
	var all []segmentFiles
	for _, e := range v.list(dir) {
		base, index, ok := format.ParseSegmentName(e.Name)
		if !ok || e.Dir {
			v.add(Note, dir+"/"+e.Name, 0, 0, "is not a file of the broker")
			continue
		}
		i := slices.IndexFunc(all, func(f segmentFiles) bool { return f.base == base })
		if i < 0 {
			i = len(all)
			all = append(all, segmentFiles{base: base, name: dir + "/" + format.SegmentName(base, format.SegmentSuffix), indexedName: dir + "/" + format.SegmentName(base, format.IndexSuffix)})
		}
		switch {
		case index && e.Irregular:
			v.add(Note, all[i].indexedName, 0, uint64(base), notRegular+": the next start removes it")
		case index:
			all[i].hasIndex = true
		default:
			all[i].hasLog, all[i].size, all[i].irregular = true, e.Size, e.Irregular
		}
	}
	slices.SortFunc(all, func(a, b segmentFiles) int {
		if a.base < b.base {
			return -1
		}
		return 1
	})
	next := op.Sequence(1) // must be the base of the next segment
	for i := range all {
		f := &all[i]
		covered := f.base <= pos.Base
		switch {
		case !covered && f.irregular:
			v.add(Note, f.name, 0, uint64(f.base), notRegular+", later than the checkpoint: the next start removes it")
			continue
		case !covered:
			v.later(pos, f)
			continue
		case f.base != next:
			v.missing(dir, next, f.base)
		}
		end := pos.Last
		if f.base < pos.Base {
			end = pos.Base - 1
			if i+1 < len(all) {
				end = all[i+1].base - 1
			}
		}
		switch {
		case !f.hasLog:
			v.add(Damage, f.name, 0, uint64(f.base), "the segment is missing")
			next = end + 1
		case f.irregular:
			v.add(Damage, f.name, 0, uint64(f.base), notRegular)
			next = end + 1
		case f.base == pos.Base:
			next = v.segment(pos, f, pos.Offset, pos.Last)
		default:
			next = v.segment(pos, f, f.size, end)
		}
	}
	if next <= pos.Last {
		v.missing(dir, next, pos.Last+1)
	}
}

// missing reports that no segment holds the sequences from next to before end.
func (v *verifier) missing(dir string, next, end op.Sequence) {
	if next < end {
		v.add(Damage, dir+"/"+format.SegmentName(next, format.SegmentSuffix), 0, uint64(next), "the segment is missing: nothing holds the sequences up to "+strconv.FormatUint(uint64(end-1), 10))
	}
}
