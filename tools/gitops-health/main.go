// What GitOps tools make of an object: reads it as JSON on stdin and prints its health.
//
//	gitops-health kstatus             as in helm --wait, and in Flux by default
//	gitops-health flux EXPRESSIONS    as in Flux, with the healthCheckExprs of a Kustomization as YAML
//	gitops-health argocd SCRIPT       as in Argo CD, with a health script in Lua
//	gitops-health version             the version of kstatus, without an object
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/fluxcd/pkg/apis/kustomize"
	"github.com/fluxcd/pkg/runtime/cel"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func main() {
	health, err := evaluate(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "gitops-health:", err)
		os.Exit(1)
	}
	fmt.Println(health)
}

func evaluate(arguments []string) (string, error) {
	if len(arguments) == 1 && arguments[0] == "version" {
		return version(), nil
	}
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		return "", err
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(text); err != nil {
		return "", err
	}
	switch {
	case len(arguments) == 1 && arguments[0] == "kstatus":
		return kstatus(object)
	case len(arguments) == 2 && arguments[0] == "flux":
		return flux(object, arguments[1])
	case len(arguments) == 2 && arguments[0] == "argocd":
		return argocd(object, arguments[1])
	}
	return "", fmt.Errorf("usage: gitops-health kstatus | flux EXPRESSIONS | argocd SCRIPT")
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "github.com/fluxcd/cli-utils" {
			return module.Version
		}
	}
	return "unknown"
}

func kstatus(object *unstructured.Unstructured) (string, error) {
	result, err := status.Compute(object)
	if err != nil {
		return "", err
	}
	return result.Status.String(), nil
}

func flux(object *unstructured.Unstructured, text string) (string, error) {
	var spec struct {
		HealthCheckExprs []kustomize.CustomHealthCheck `json:"healthCheckExprs"`
	}
	if err := yaml.UnmarshalStrict([]byte(text), &spec); err != nil {
		return "", err
	}
	for _, check := range spec.HealthCheckExprs {
		if check.APIVersion != object.GetAPIVersion() || check.Kind != object.GetKind() {
			continue
		}
		evaluator, err := cel.NewStatusEvaluator(&check.HealthCheckExpressions)
		if err != nil {
			return "", err
		}
		result, err := evaluator.Evaluate(context.Background(), object)
		if err != nil {
			// Flux goes on waiting: an expression may refer to a field that is not there yet.
			return status.UnknownStatus.String(), nil
		}
		return result.Status.String(), nil
	}
	return kstatus(object)
}

// Argo CD runs scripts with these libraries alone, unless an administrator allows more.
func argocd(object *unstructured.Unstructured, script string) (string, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for _, open := range []lua.LGFunction{lua.OpenPackage, lua.OpenBase, lua.OpenTable} {
		state.Push(state.NewFunction(open))
		state.Call(0, 0)
	}
	state.SetGlobal("obj", table(state, object.Object))
	if err := state.DoString(script); err != nil {
		return "", err
	}
	health, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		return "", fmt.Errorf("the script returns no table")
	}
	return health.RawGetString("status").String(), nil
}

func table(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case map[string]any:
		result := state.NewTable()
		for key, item := range value {
			result.RawSetString(key, table(state, item))
		}
		return result
	case []any:
		result := state.NewTable()
		for _, item := range value {
			result.Append(table(state, item))
		}
		return result
	case string:
		return lua.LString(value)
	case bool:
		return lua.LBool(value)
	case int64:
		return lua.LNumber(value)
	case float64:
		return lua.LNumber(value)
	}
	return lua.LNil
}
