package sim

// The words of a plan's expectation that are not a property.
const (
	ExpectHeld    = "held"
	ExpectRefused = "refused"
)

// Failed says whether a run is not what its plan expects.
func Failed(p *Plan, r *Result) bool { return Verdict(p, r) != Held }

// Verdict is the run's status in the light of what the plan expects: a plan may
// expect a refusal, or, with a planted bug, a property to break.
func Verdict(p *Plan, r *Result) Status {
	switch {
	case r.Status == BadPlan || r.Status == Inconclusive:
		return r.Status
	case p.Expect == "" || p.Expect == ExpectHeld:
		return r.Status
	case p.Expect == ExpectRefused && r.Status == Held && r.Refused == "":
		return Broke
	case p.Expect == ExpectRefused:
		return r.Status
	case r.Property == p.Expect:
		return Held
	}
	return Broke
}
