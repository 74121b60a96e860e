package checker

import "github.com/anishathalye/porcupine"

// spanned is a pointer to an operation, which gives its interval for the search.
type spanned[O any] interface {
	*O
	span() (call, ret int64)
}

// explain asks porcupine for an order of ops that step allows, from the state
// initial on. It is not conclusive when that took more than so many steps.
func explain[O, S any, P spanned[O]](ops []O, initial S, steps int, step func(S, P) (bool, S)) (ok, conclusive bool) {
	history := make([]porcupine.Operation, len(ops))
	for i := range ops {
		o := P(&ops[i])
		call, ret := o.span()
		history[i] = porcupine.Operation{Input: o, Call: call, Return: ret}
	}
	left := steps
	model := porcupine.Model{
		Init: func() any { return initial },
		Step: func(state, input, _ any) (bool, any) {
			if left--; left < 0 {
				return false, state
			}
			return step(state.(S), input.(P))
		},
	}
	ok = porcupine.CheckOperations(model, history)
	return ok, ok || left >= 0
}
