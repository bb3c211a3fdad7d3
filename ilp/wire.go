package ilp

// wireProgram and wireSolution are the request to the helper and its response.
type wireProgram struct {
	Upper   []float64
	Integer bool
	Rows    []wireRow
}

type wireRow struct {
	Cols  []int
	Coef  []float64
	Sense sense
	RHS   float64
}

type wireSolution struct {
	Outcome outcome
	Values  []float64
	Detail  string
}
