package sim

import "slices"

// Shrink makes a failing plan smaller as long as fails says that it still fails
// in the same way: whole runs of events go first, then single ones, then what is
// left is made smaller. It tries at most budget plans.
func Shrink(p *Plan, fails func(*Plan) bool, budget int) *Plan {
	best := clonePlan(p)
	try := func(c *Plan) bool {
		if budget <= 0 {
			return false
		}
		budget--
		if !fails(c) {
			return false
		}
		best = c
		return true
	}
	for size := len(best.Events) / 2; size >= 1; size /= 2 {
		for i := 0; i < len(best.Events); {
			c := clonePlan(best)
			c.Events = slices.Delete(c.Events, i, min(i+size, len(c.Events)))
			if !try(c) {
				i += size
			}
		}
	}
	for i := 0; i < len(best.Events); i++ {
		for _, name := range []string{"n", "loops", "size", "keys"} {
			for best.Events[i].Int(name, 0) > 1 {
				c := clonePlan(best)
				for j := range c.Events[i].Args {
					if c.Events[i].Args[j].Name == name {
						c.Events[i].Args[j].Value /= 2
					}
				}
				if !try(c) {
					break
				}
			}
		}
	}
	for i := 0; i < len(best.Knobs); {
		c := clonePlan(best)
		c.Knobs = slices.Delete(c.Knobs, i, i+1)
		if !try(c) {
			i++
		}
	}
	return best
}

func clonePlan(p *Plan) *Plan {
	c := *p
	c.Knobs = slices.Clone(p.Knobs)
	c.Topics = slices.Clone(p.Topics)
	c.Events = slices.Clone(p.Events)
	for i := range c.Events {
		c.Events[i].Args = slices.Clone(c.Events[i].Args)
	}
	return &c
}
