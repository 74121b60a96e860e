package sim

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/mortarmq/mortarmq/clock"
)

// Plan is everything that a run follows from. As text it is one statement a
// line:
//
//	mortarmq-plan 1
//	title kill between append and sync
//	expect held
//	seed 17
//	end 12s
//	knob lease 3s
//	topic orders 4
//	at 1.5ms client id=0 kind=producer topic=0 seed=99
//	at 2s kill down=300ms seed=4
//
// Numbers may carry a unit of time (ns us ms s m h) or size (k M G).
type Plan struct {
	Title  string
	Expect string   // held, refused, or the name of the property that breaks
	Reach  []string // marks that the run must reach
	Seed   uint64
	End    clock.Duration // when the storm ends
	Knobs  []Arg
	Topics []Topic
	Events []Event // in order of time
}

// Topic is one that the plan's clients use; it is declared before anything else.
type Topic struct {
	Name       string
	Partitions int
}

// Arg is a named number.
type Arg struct {
	Name  string
	Value int64
}

// Event is something that happens at a time. Seed is its own chance.
type Event struct {
	At   clock.Duration
	Kind string
	Args []Arg
	Seed uint64
}

// Int gives the argument called name, or def.
func (e *Event) Int(name string, def int64) int64 { return find(e.Args, name, def) }

// Span gives the argument called name as a span of time.
func (e *Event) Span(name string, def clock.Duration) clock.Duration {
	return clock.Duration(e.Int(name, int64(def)))
}

func find(args []Arg, name string, def int64) int64 {
	for _, a := range args {
		if a.Name == name {
			return a.Value
		}
	}
	return def
}

// Knob gives the plan's value of a knob, or what knobDefaults say.
func (p *Plan) Knob(name string) int64 {
	def, ok := knobDefault(name)
	if !ok {
		panic("sim: there is no knob " + name)
	}
	return find(p.Knobs, name, def)
}

// Span gives a knob as a span of time.
func (p *Plan) Span(name string) clock.Duration { return clock.Duration(p.Knob(name)) }

const planMagic = "mortarmq-plan 1"

// String gives the plan as text, which Parse reads back.
func (p *Plan) String() string {
	var b strings.Builder
	b.WriteString(planMagic + "\n")
	if p.Title != "" {
		fmt.Fprintf(&b, "title %s\n", p.Title)
	}
	if p.Expect != "" {
		fmt.Fprintf(&b, "expect %s\n", p.Expect)
	}
	for _, m := range p.Reach {
		fmt.Fprintf(&b, "reach %s\n", m)
	}
	fmt.Fprintf(&b, "seed %d\nend %s\n", p.Seed, number("end", int64(p.End)))
	for _, k := range p.Knobs {
		fmt.Fprintf(&b, "knob %s %s\n", k.Name, number(k.Name, k.Value))
	}
	for _, t := range p.Topics {
		fmt.Fprintf(&b, "topic %s %d\n", t.Name, t.Partitions)
	}
	for i := range p.Events {
		e := &p.Events[i]
		fmt.Fprintf(&b, "at %s %s", number("at", int64(e.At)), e.Kind)
		for _, a := range e.Args {
			fmt.Fprintf(&b, " %s=%s", a.Name, word(a.Name, a.Value))
		}
		fmt.Fprintf(&b, " seed=%d\n", e.Seed)
	}
	return b.String()
}

// spans are the arguments and knobs that are written as spans of time.
var spans = []string{"at", "end", "down", "for", "think", "gap", "step", "delay", "after", "lease", "backoff", "backoff_max", "checkpoint_every", "link_min", "link_max", "turn_min", "turn_max", "wait", "poll_wait", "drain"}

var units = []struct {
	suffix string
	value  int64
}{
	{"ns", 1}, {"us", 1000}, {"ms", 1_000_000}, {"s", 1_000_000_000}, {"m", 60_000_000_000}, {"h", 3_600_000_000_000},
	{"k", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30},
}

// number writes v with the largest unit that loses nothing.
func number(name string, v int64) string {
	if v == 0 || !slices.Contains(spans, name) {
		return strconv.FormatInt(v, 10)
	}
	for i := 5; i >= 0; i-- {
		if u := units[i]; v%u.value == 0 {
			return strconv.FormatInt(v/u.value, 10) + u.suffix
		}
	}
	return strconv.FormatInt(v, 10)
}

// parseNumber reads 12, 1.5ms, 64k.
func parseNumber(s string) (int64, error) {
	unit := int64(1)
	digits := strings.TrimRight(s, "nusmhkMG")
	if suffix := s[len(digits):]; suffix != "" {
		i := slices.IndexFunc(units, func(u struct {
			suffix string
			value  int64
		}) bool {
			return u.suffix == suffix
		})
		if i < 0 {
			return 0, fmt.Errorf("%q has no unit that is known", s)
		}
		unit = units[i].value
	}
	whole, fraction, cut := strings.Cut(digits, ".")
	v, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no number", s)
	}
	v *= unit
	if cut {
		f, err := strconv.ParseInt(fraction, 10, 64)
		if err != nil || len(fraction) > 9 {
			return 0, fmt.Errorf("%q is no number", s)
		}
		for range len(fraction) {
			unit /= 10
		}
		v += f * unit
	}
	return v, nil
}

// ErrPlan is wrapped by everything that Parse objects to.
var ErrPlan = errors.New("not a plan")

// Parse reads a plan. Lines that are empty or begin with # are left out.
func Parse(text string) (*Plan, error) {
	p := &Plan{Expect: "held"}
	magic := false
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if !magic {
			if magic = line == planMagic; !magic {
				return nil, fmt.Errorf("%w: it does not begin with %q", ErrPlan, planMagic)
			}
			continue
		}
		if err := p.parseLine(line); err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrPlan, i+1, err)
		}
	}
	if !magic {
		return nil, fmt.Errorf("%w: it is empty", ErrPlan)
	}
	p.sort()
	return p, p.validate()
}

func (p *Plan) sort() {
	sort.SliceStable(p.Events, func(i, j int) bool { return p.Events[i].At < p.Events[j].At })
}

func (p *Plan) parseLine(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	f := strings.Fields(rest)
	var err error
	switch {
	case word == "title":
		p.Title = rest
	case word == "expect":
		p.Expect = rest
	case word == "reach" && len(f) == 1:
		p.Reach = append(p.Reach, f[0])
	case word == "seed" && len(f) == 1:
		p.Seed, err = strconv.ParseUint(f[0], 10, 64)
	case word == "end" && len(f) == 1:
		var v int64
		v, err = parseNumber(f[0])
		p.End = clock.Duration(v)
	case word == "knob" && len(f) == 2:
		var v int64
		v, err = parseNumber(f[1])
		p.Knobs = append(p.Knobs, Arg{f[0], v})
	case word == "topic" && len(f) == 2:
		var v int64
		v, err = parseNumber(f[1])
		p.Topics = append(p.Topics, Topic{f[0], int(v)})
	case word == "at" && len(f) >= 2:
		err = p.parseEvent(f)
	default:
		return fmt.Errorf("%q is no statement", line)
	}
	return err
}

func (p *Plan) parseEvent(f []string) error {
	at, err := parseNumber(f[0])
	if err != nil {
		return err
	}
	e := Event{At: clock.Duration(at), Kind: f[1]}
	for _, a := range f[2:] {
		name, value, ok := strings.Cut(a, "=")
		if !ok {
			return fmt.Errorf("%q is not name=number", a)
		}
		if name == "seed" {
			e.Seed, err = strconv.ParseUint(value, 10, 64)
		} else {
			var v int64
			v, err = parseWord(name, value)
			e.Args = append(e.Args, Arg{name, v})
		}
		if err != nil {
			return err
		}
	}
	p.Events = append(p.Events, e)
	return nil
}

// word writes a value, which for some arguments is a word.
func word(name string, v int64) string {
	if list := argWords(name); v >= 0 && v < int64(len(list)) {
		return list[v]
	}
	return number(name, v)
}

// parseWord reads a value, which for some arguments may be a word.
func parseWord(name, value string) (int64, error) {
	if i := slices.Index(argWords(name), value); i >= 0 {
		return int64(i), nil
	}
	return parseNumber(value)
}

func (p *Plan) validate() error {
	for _, k := range p.Knobs {
		if _, ok := knobDefault(k.Name); !ok {
			return fmt.Errorf("%w: there is no knob %s", ErrPlan, k.Name)
		}
	}
	if len(p.Topics) == 0 || p.End <= 0 {
		return fmt.Errorf("%w: it needs a topic and an end", ErrPlan)
	}
	for i := range p.Events {
		if !slices.Contains(eventKinds, p.Events[i].Kind) {
			return fmt.Errorf("%w: there is no event %s", ErrPlan, p.Events[i].Kind)
		}
		if t := p.Events[i].Int("topic", 0); t < 0 || t >= int64(len(p.Topics)) {
			return fmt.Errorf("%w: there is no topic %d", ErrPlan, t)
		}
	}
	return nil
}
