// Command cel runs one workload of the area `cel` on cel-go once and prints one line
// of JSON. The source of the Rust binary `cel` in this crate describes the workloads.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"

	"pintle.dev/bench/internal/meter"
)

const (
	compiled  = 500
	evaluated = 20_000
	// callLimit is kube-apiserver's limit for one expression.
	callLimit = 1_000_000
	// folder has the rules and the object, relative to the repository's root.
	folder = "crates/bench/src/cel/"
)

func main() {
	meter.Main(map[string]func(meter.Setting) meter.Sample{
		"compile":           compile,
		"evaluate":          func(how meter.Setting) meter.Sample { return evaluate(how, func(string) bool { return true }) },
		"evaluate-fields":   func(how meter.Setting) meter.Sample { return evaluate(how, func(rule string) bool { return !isLoop(rule) }) },
		"evaluate-loops":    func(how meter.Setting) meter.Sample { return evaluate(how, isPlainLoop) },
		"evaluate-patterns": func(how meter.Setting) meter.Sample { return evaluate(how, isPattern) },
	})
}

func isLoop(rule string) bool {
	for _, part := range []string{"all(", "exists(", "filter(", "map("} {
		if strings.Contains(rule, part) {
			return true
		}
	}
	return false
}

func isPattern(rule string) bool { return strings.Contains(rule, "matches('") }

func isPlainLoop(rule string) bool { return isLoop(rule) && !isPattern(rule) }

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}

func rules() []string {
	text := must(os.ReadFile(folder + "rules.txt"))
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// environment returns an environment with kube-apiserver's options for these rules.
func environment() *cel.Env {
	return must(cel.NewEnv(
		cel.HomogeneousAggregateLiterals(),
		cel.EagerlyValidateDeclarations(true),
		cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true),
		cel.OptionalTypes(),
		ext.Strings(ext.StringsVersion(2)),
		cel.ASTValidators(cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateRegexLiterals(), cel.ValidateHomogeneousAggregateLiterals()),
		cel.Variable("self", cel.DynType),
	))
}

func program(env *cel.Env, rule string) cel.Program {
	ast, issues := env.Compile(rule)
	must(ast, issues.Err())
	return must(env.Program(ast, cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost), cel.CostLimit(callLimit)))
}

func compile(how meter.Setting) meter.Sample {
	env, all, rounds := environment(), rules(), how.Size(compiled)
	for _, rule := range all {
		program(env, rule)
	}
	return meter.Measure(func() meter.Tally {
		for range rounds {
			for _, rule := range all {
				program(env, rule)
			}
		}
		return meter.Operations(rounds * len(all))
	})
}

func evaluate(how meter.Setting, chosen func(string) bool) meter.Sample {
	env := environment()
	var programs []cel.Program
	for _, rule := range rules() {
		if chosen(rule) {
			programs = append(programs, program(env, rule))
		}
	}
	var object map[string]any
	decoder := json.NewDecoder(strings.NewReader(string(must(os.ReadFile(folder + "object.json")))))
	decoder.UseNumber()
	must(object, decoder.Decode(&object))
	variables := map[string]any{"self": integers(object)}
	holds := func(program cel.Program) bool {
		value, _, err := program.Eval(variables)
		return must(value, err).Value() == true
	}
	rounds := how.Size(evaluated)
	return meter.Measure(func() meter.Tally {
		held := 0
		for range rounds {
			for _, program := range programs {
				if holds(program) {
					held++
				}
			}
		}
		if held != rounds*len(programs) {
			fmt.Fprintln(os.Stderr, "a rule does not hold")
			os.Exit(1)
		}
		return meter.Operations(held)
	})
}

// integers converts numbers as kube-apiserver's decoder does.
func integers(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value {
			value[name] = integers(field)
		}
	case []any:
		for index, item := range value {
			value[index] = integers(item)
		}
	case json.Number:
		if number, err := value.Int64(); err == nil {
			return number
		}
		return must(value.Float64())
	}
	return value
}
