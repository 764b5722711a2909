package config

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"testing"

	"github.com/invopop/jsonschema"

	"github.com/pilotlight-proxy/pilotlight/circuit"
	"github.com/pilotlight-proxy/pilotlight/health"
	"github.com/pilotlight-proxy/pilotlight/internal/telemetry"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"github.com/pilotlight-proxy/pilotlight/proxy"
	"github.com/pilotlight-proxy/pilotlight/warmup"
	"github.com/pilotlight-proxy/pilotlight/xds"
)

// schemaFile is relative to the root of the repository, where TestSchemaIsFresh goes.
const schemaFile = "deploy/pilotlight.schema.json"

// TestSchemaIsFresh generates the schema from the Go types and their comments and compares it with the file that is checked in and embedded
// in the binary. It is the generator too ("go generate ./internal/config"): the sources are there in a test, and the binary need not link it.
func TestSchemaIsFresh(t *testing.T) {
	t.Chdir("../..")
	generated, err := json.MarshalIndent(generateSchema(t), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	generated = append(generated, '\n')
	if *update {
		if err := os.WriteFile(schemaFile, generated, 0o644); err != nil {
			t.Fatal(err)
		}

		return
	}
	checkedIn, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(checkedIn, generated) {
		t.Errorf("%s is stale: run \"go generate ./internal/config\" and commit the result", schemaFile)
	}
}

func TestSchemaIsWhole(t *testing.T) {
	t.Chdir("../..")
	schema := generateSchema(t)
	checkSchema(t, schema, reflect.TypeFor[Config](), "")
}

// checkSchema checks that a schema describes every key of t, and no other.
func checkSchema(t *testing.T, schema *jsonschema.Schema, of reflect.Type, path string) {
	t.Helper()
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch {
	case isScalar(of):
		if schema.Type == "" && schema.AnyOf == nil && schema.Enum == nil {
			t.Errorf("%s: the schema has no form for %s", path, of)
		}
	case of == reflect.TypeFor[units.AutoList]():
		if len(schema.AnyOf) != 2 {
			t.Errorf("%s: the schema has no form for %s", path, of)
		}
	case of.Kind() == reflect.Slice:
		checkSchema(t, schema.Items, of.Elem(), path+"[]")
	case of.Kind() == reflect.Map:
		checkSchema(t, schema.AdditionalProperties, of.Elem(), path+".*")
	default:
		if closed, err := json.Marshal(schema.AdditionalProperties); err != nil || string(closed) != "false" {
			t.Errorf("%s: unknown keys are not refused", path)
		}
		keys := keysOf(of)
		if schema.Properties.Len() != len(keys) {
			t.Errorf("%s: the schema has %d keys, expected %d", path, schema.Properties.Len(), len(keys))
		}
		for _, k := range keys {
			below := join(path, k.name)
			property, ok := schema.Properties.Get(k.name)
			if !ok {
				t.Errorf("%s is not in the schema", below)

				continue
			}
			if property.Description == "" {
				t.Errorf("%s has no description: document the field %s.%s", below, of, of.Field(k.index).Name)
			}
			checkSchema(t, property, of.Field(k.index).Type, below)
		}
	}
}

// TestSchemaPatternsAgreeWithTheParsers reads what each default prints, so that no pattern refuses what the program accepts.
func TestSchemaPatternsAgreeWithTheParsers(t *testing.T) {
	t.Parallel()
	for pattern, texts := range map[string][]string{
		units.DurationPattern: {"0", "0s", "30s", "1h30m", "1.5ms", "3µs"},
		units.SizePattern:     {"0", "64KiB", "1.5GB"},
		units.AddressPattern:  {"", "localhost:8000", "[::1]:80", "http://h:80/base", "https://h", "unix:/run/x", "unix:///run/x"},
		units.ListenPattern:   {"", ":9000", "localhost:9002", "[::]:1", "unix:/run/x"},
	} {
		for _, text := range texts {
			if !regexp.MustCompile(pattern).MatchString(text) {
				t.Errorf("%s refuses %q", pattern, text)
			}
		}
		for _, text := range []string{"30", "1d", "-1s", "grpc://h", "/run/x.sock", "::1:8000 x"} {
			if regexp.MustCompile(pattern).MatchString(text) {
				t.Errorf("%s accepts %q", pattern, text)
			}
		}
	}
}

func generateSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	reflector := jsonschema.Reflector{
		Anonymous: true, DoNotReference: true, RequiredFromJSONSchemaTags: true, FieldNameTag: "yaml",
		Mapper: func(of reflect.Type) *jsonschema.Schema { return scalarSchema(t, of) },
	}
	for _, room := range []string{"./internal/config", "./proxy", "./health", "./circuit", "./warmup", "./internal/telemetry", "./xds"} {
		if err := reflector.AddGoComments("github.com/pilotlight-proxy/pilotlight", room); err != nil {
			t.Fatal(err)
		}
	}
	schema := reflector.Reflect(Config{})
	schema.Title = "Pilotlight configuration"
	addDefaults(schema, reflect.ValueOf(*Default()))

	return schema
}

// enums maps each enum to its words.
func enums() map[reflect.Type][]any {
	return map[reflect.Type][]any{
		reflect.TypeFor[BackendType]():           words(BackendTypeValues()),
		reflect.TypeFor[Provider]():              words(ProviderValues()),
		reflect.TypeFor[proxy.Forwarded]():       words(proxy.ForwardedValues()),
		reflect.TypeFor[proxy.Target]():          words(proxy.TargetValues()),
		reflect.TypeFor[proxy.Transport]():       words(proxy.TransportValues()),
		reflect.TypeFor[proxy.HeldPolicy]():      words(proxy.HeldPolicyValues()),
		reflect.TypeFor[telemetry.LogLevel]():    words(telemetry.LogLevelValues()),
		reflect.TypeFor[telemetry.LogFormat]():   words(telemetry.LogFormatValues()),
		reflect.TypeFor[telemetry.Protocol]():    words(telemetry.ProtocolValues()),
		reflect.TypeFor[telemetry.Propagator]():  words(telemetry.PropagatorValues()),
		reflect.TypeFor[circuit.WhileOpen]():     words(circuit.WhileOpenValues()),
		reflect.TypeFor[health.ActiveCheck]():    words(health.ActiveCheckValues()),
		reflect.TypeFor[health.ReadyWhen]():      words(health.ReadyWhenValues()),
		reflect.TypeFor[health.ReadyAfter]():     words(health.ReadyAfterValues()),
		reflect.TypeFor[health.Reaction]():       words(health.ReactionValues()),
		reflect.TypeFor[health.RestartBackend](): words(health.RestartBackendValues()),
		reflect.TypeFor[warmup.Policy]():         words(warmup.PolicyValues()),
		reflect.TypeFor[warmup.Order]():          words(warmup.OrderValues()),
		reflect.TypeFor[warmup.Endpoint]():       words(warmup.EndpointValues()),
		reflect.TypeFor[warmup.Trigger]():        words(warmup.TriggerValues()),
		reflect.TypeFor[xds.WhileWarming]():      words(xds.WhileWarmingValues()),
		reflect.TypeFor[IdleUnload]():            words(IdleUnloadValues()),
	}
}

func words[T fmt.Stringer](values []T) []any {
	list := make([]any, 0, len(values))
	for _, value := range values {
		list = append(list, value.String())
	}

	return list
}

// scalarSchema is the schema of a type with a form of its own; nil for all others. A type that it does not know fails the test.
func scalarSchema(t *testing.T, of reflect.Type) *jsonschema.Schema {
	t.Helper()
	if of == reflect.TypeFor[units.AutoList]() {
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Const: "auto"}, {Type: "array", Items: &jsonschema.Schema{Type: "string"}}}, Default: "auto"}
	}
	if !reflect.PointerTo(of).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return nil
	}
	if list, ok := enums()[of]; ok {
		return &jsonschema.Schema{Type: "string", Enum: list}
	}
	pattern := func(p string) *jsonschema.Schema { return &jsonschema.Schema{Type: "string", Pattern: p} }
	either := func(forms ...*jsonschema.Schema) *jsonschema.Schema { return &jsonschema.Schema{AnyOf: forms} }
	zero := &jsonschema.Schema{Const: 0}
	auto := &jsonschema.Schema{Const: "auto"}
	positive := &jsonschema.Schema{Type: "integer", Minimum: "1"}
	switch of {
	case reflect.TypeFor[units.Duration]():
		return either(pattern(units.DurationPattern), zero)
	case reflect.TypeFor[units.Size]():
		return either(pattern(units.SizePattern), zero)
	case reflect.TypeFor[units.Address]():
		return pattern(units.AddressPattern)
	case reflect.TypeFor[units.Listen]():
		return pattern(units.ListenPattern)
	case reflect.TypeFor[units.Auto[units.Duration]]():
		return either(auto, pattern(units.DurationPattern), zero)
	case reflect.TypeFor[units.Auto[units.Size]]():
		return either(auto, pattern(units.SizePattern), zero)
	case reflect.TypeFor[units.Auto[int]]():
		return either(auto, positive)
	case reflect.TypeFor[units.Auto[string]](), reflect.TypeFor[Secret]():
		return &jsonschema.Schema{Type: "string"}
	case reflect.TypeFor[warmup.Until]():
		return either(&jsonschema.Schema{Const: "converged"}, positive)
	}
	t.Fatalf("the schema of %s is not known: add it here, and to enums if it is one", of)

	return nil
}

// addDefaults writes what holds when a key is left out beside its description. Lists and maps are empty, and say so themselves.
func addDefaults(schema *jsonschema.Schema, v reflect.Value) {
	for _, k := range keysOf(v.Type()) {
		property, _ := schema.Properties.Get(k.name)
		field := v.Field(k.index)
		switch {
		case k.name == "version":
		case isScalar(field.Type()):
			property.Default = defaultOf(field)
		case field.Kind() == reflect.Struct:
			addDefaults(property, field)
		}
	}
}

func defaultOf(field reflect.Value) any {
	if marshaler, ok := reflect.TypeAssert[encoding.TextMarshaler](field); ok {
		if text, err := marshaler.MarshalText(); err == nil {
			return string(text)
		}
	}

	return field.Interface()
}
