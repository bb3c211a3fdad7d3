package main

// switches is the file that each spoilt package gets: which mistake is made, how
// operators work under it, and, if none is made, which mistakes are reached.
const switches = `package %s

import (
	"cmp"
	"os"
	"strconv"
	"syscall"
)

var mutant__made = func() int { n, _ := strconv.Atoi(os.Getenv("MUTANT")); return n }()

// mutant__reached has a byte a mistake, which is set where it would change what is done next.
var mutant__reached = func() []byte {
	file, err := os.OpenFile(os.Getenv("MUTANTS_REACHED"), os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	defer file.Close()
	reached, err := syscall.Mmap(int(file.Fd()), 0, %d, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	return reached
}()

type mutant__number interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr | ~float32 | ~float64
}

func mutant__is(n int) bool {
	if mutant__reached != nil {
		mutant__reached[n] = 1
	}
	return n == mutant__made
}

func mutant__not[B ~bool](n int, b B) B { return b != B(mutant__is(n)) }

func mutant__and(n int, a bool, b func() bool) bool {
	if mutant__is(n) {
		return a || b()
	}
	return a && b()
}

func mutant__or(n int, a bool, b func() bool) bool {
	if mutant__is(n) {
		return a && b()
	}
	return a || b()
}

func mutant__less[T cmp.Ordered](n int, a, b T) bool    { return a < b || a == b && mutant__is(n) }
func mutant__atmost[T cmp.Ordered](n int, a, b T) bool  { return a < b || a == b && !mutant__is(n) }
func mutant__more[T cmp.Ordered](n int, a, b T) bool    { return a > b || a == b && mutant__is(n) }
func mutant__atleast[T cmp.Ordered](n int, a, b T) bool { return a > b || a == b && !mutant__is(n) }

func mutant__next[T mutant__number](n int, v T) T {
	if mutant__is(n) {
		return v + 1
	}
	return v
}

func mutant__add[T mutant__number](n int, a, b T) T {
	if mutant__is(n) {
		return a - b
	}
	return a + b
}

func mutant__sub[T mutant__number](n int, a, b T) T {
	if mutant__is(n) {
		return a + b
	}
	return a - b
}

func mutant__mul[T mutant__number](n int, a, b T) T {
	if mutant__is(n) {
		return a / b
	}
	return a * b
}

func mutant__div[T mutant__number](n int, a, b T) T {
	if mutant__is(n) {
		return a * b
	}
	return a / b
}
`
