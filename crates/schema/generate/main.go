// Writes the table of built-in types: `go run . DIR >../types.txt`. DIR contains the OpenAPI v3 documents from a
// kube-apiserver with the same release. README.md describes the table's format and how to fetch the documents.
//
// The Go types and their struct tags define a field's wire format: omitted if empty or not, a pointer or
// a value, a time, a quantity. The OpenAPI documents define how server-side apply treats lists and maps.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	core "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// property has the parts of a field's or type's OpenAPI schema that the table needs.
type property struct {
	Properties map[string]property                     `json:"properties"`
	Required   []string                                `json:"required"`
	Default    any                                     `json:"default"`
	Enum       []string                                `json:"enum"`
	Items      *property                               `json:"items"`
	ListType   string                                  `json:"x-kubernetes-list-type"`
	Keys       []string                                `json:"x-kubernetes-list-map-keys"`
	MapType    string                                  `json:"x-kubernetes-map-type"`
	GVKs       []struct{ Group, Version, Kind string } `json:"x-kubernetes-group-version-kind"`
}

var special = map[reflect.Type]string{
	reflect.TypeFor[meta.Time]():                                  "time",
	reflect.TypeFor[meta.MicroTime]():                             "microtime",
	reflect.TypeFor[meta.Duration]():                              "duration",
	reflect.TypeFor[meta.FieldsV1]():                              "any",
	reflect.TypeFor[resource.Quantity]():                          "quantity",
	reflect.TypeFor[intstr.IntOrString]():                         "intstr",
	reflect.TypeFor[runtime.RawExtension]():                       "raw",
	reflect.TypeFor[apiextensions.JSON]():                         "any",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrBool]():        "schema-or-bool",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrArray]():       "schema-or-list",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrStringArray](): "schema-or-strings",
	reflect.TypeFor[[]byte]():                                     "bytes",
}

var (
	documents = map[string]property{}
	types     = map[string]reflect.Type{}
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: generate DIR")
	}
	read(os.Args[1])
	if err := apiextensions.AddToScheme(scheme.Scheme); err != nil {
		log.Fatal(err)
	}
	if err := apiregistration.AddToScheme(scheme.Scheme); err != nil {
		log.Fatal(err)
	}
	kinds := map[string]reflect.Type{}
	for name, document := range documents {
		for _, gvk := range document.GVKs {
			if strings.HasSuffix(gvk.Kind, "List") || gvk.Kind == "WatchEvent" || strings.HasPrefix(gvk.Kind, "API") && gvk.Kind != "APIService" {
				continue
			}
			if gvk.Group != "" && gvk.Kind == "DeleteOptions" {
				continue
			}
			object, err := scheme.Scheme.New(schema.GroupVersionKind(gvk))
			if err != nil {
				log.Fatalf("%s: %v", name, err)
			}
			of := reflect.TypeOf(object).Elem()
			kinds[strings.TrimPrefix(gvk.Group+"/", "/")+gvk.Version+" "+gvk.Kind] = of
			collect(of)
		}
	}
	// The discovery documents, which the server also sends in protobuf.
	for name, object := range map[string]any{
		"v1 APIGroup":        meta.APIGroup{},
		"v1 APIGroupList":    meta.APIGroupList{},
		"v1 APIResourceList": meta.APIResourceList{},
		"v1 APIVersions":     meta.APIVersions{},
		"apidiscovery.k8s.io/v2 APIGroupDiscoveryList": apidiscovery.APIGroupDiscoveryList{},
	} {
		kinds[name] = reflect.TypeOf(object)
		collect(kinds[name])
	}
	// The options of connect requests, which no OpenAPI document contains. Admission webhooks can patch them.
	for _, object := range []any{
		core.NodeProxyOptions{}, core.PodAttachOptions{}, core.PodExecOptions{}, core.PodPortForwardOptions{},
		core.PodProxyOptions{}, core.ServiceProxyOptions{},
	} {
		of := reflect.TypeOf(object)
		kinds["v1 "+of.Name()] = of
		collect(of)
	}
	collect(reflect.TypeFor[meta.PartialObjectMetadata]())
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	fmt.Fprintln(out, "# The types of the built-in kinds. README.md describes the format and how to regenerate it. Generated: do not edit.")
	for _, name := range sorted(kinds) {
		fmt.Fprintf(out, "kind %s %s\n", name, short(kinds[name]))
	}
	for _, name := range sorted(types) {
		write(out, name, types[name])
	}
}

func read(dir string) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		log.Fatalf("no OpenAPI documents in %s", dir)
	}
	for _, file := range files {
		var document struct {
			Components struct{ Schemas map[string]property }
		}
		data, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(data, &document)
		}
		if err != nil {
			log.Fatalf("%s: %v", file, err)
		}
		for name, schema := range document.Components.Schemas {
			documents[name] = schema
		}
	}
}

// collect adds all structs that `of` can reach to types.
func collect(of reflect.Type) {
	switch {
	case special[of] == "schema-or-bool":
		collect(reflect.TypeFor[apiextensions.JSONSchemaProps]())
	case special[of] != "":
	case of.Kind() == reflect.Pointer, of.Kind() == reflect.Slice, of.Kind() == reflect.Map:
		collect(of.Elem())
	case of.Kind() == reflect.Struct:
		if types[short(of)] == of {
			return
		}
		if other := types[short(of)]; other != nil {
			log.Fatalf("%v and %v have one short name", of, other)
		}
		types[short(of)] = of
		for _, field := range fields(of) {
			collect(field.Type)
		}
	}
}

// member is a struct's JSON member with its protobuf field number. If Go embeds the struct, the enclosing message's number precedes it.
type member struct {
	reflect.StructField
	number string
}

// fields lists a struct's JSON members, including members of embedded structs.
func fields(of reflect.Type) []member {
	var all []member
	for i := range of.NumField() {
		field := of.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		number := ""
		if tag := strings.Split(field.Tag.Get("protobuf"), ","); len(tag) > 1 {
			number = tag[1]
		}
		// A named list type is a message that contains the items.
		if _, message := reflect.Zero(field.Type).Interface().(interface{ Size() int }); message && field.Type.Kind() == reflect.Slice {
			number += ".1"
		}
		switch {
		case name == "-" || !field.IsExported():
		case name == "" && field.Anonymous:
			for _, inner := range fields(field.Type) {
				// Members of an embedded struct without a number, such as TypeMeta, are not part of the message.
				if number == "" {
					inner.number = ""
				} else {
					inner.number = number + "." + inner.number
				}
				all = append(all, inner)
			}
		default:
			all = append(all, member{field, number})
		}
	}
	return all
}

func write(out *bufio.Writer, name string, of reflect.Type) {
	document, known := documents[long(of)]
	if !known {
		log.Printf("%s: not in the documents", long(of))
	}
	atomic := ""
	if document.MapType == "atomic" {
		atomic = " atomic"
	}
	fmt.Fprintf(out, "%s%s\n", name, atomic)
	for _, field := range fields(of) {
		tag := strings.Split(field.Tag.Get("json"), ",")
		fmt.Fprintf(out, " %s", tag[0])
		if always(field, tag[1:]) {
			fmt.Fprint(out, "!")
		}
		schema := document.Properties[tag[0]]
		spelt := spell(field.Type)
		if field.Type == reflect.TypeFor[core.ResourceList]() && rounded(of) {
			spelt = "{resource"
		}
		fmt.Fprintf(out, " %s", spelt)
		switch {
		case schema.ListType == "map":
			fmt.Fprintf(out, " map=%s", strings.Join(keys(field.Type, schema.Keys), ","))
		case schema.ListType == "set":
			fmt.Fprint(out, " set")
		case schema.MapType == "atomic":
			fmt.Fprint(out, " atomic")
		case schema.MapType == "granular":
			fmt.Fprint(out, " granular")
		}
		if field.number != "" {
			fmt.Fprintf(out, " #%s", field.number)
		}
		if strategy := field.Tag.Get("patchStrategy"); strategy != "" {
			fmt.Fprintf(out, " %s", strings.Join(strings.Split(strategy, ","), " "))
		}
		if key := field.Tag.Get("patchMergeKey"); key != "" {
			fmt.Fprintf(out, " key=%s", key)
		}
		if slices.Contains(document.Required, tag[0]) {
			fmt.Fprint(out, " required")
		}
		if kept[short(of)+"."+tag[0]] {
			fmt.Fprint(out, " kept")
		}
		if values := enum(schema); len(values) > 0 {
			fmt.Fprintf(out, " enum=%s", strings.Join(values, ","))
		}
		fmt.Fprintln(out)
	}
}

// enum returns the permitted values of the field or of the list's items.
func enum(schema property) []string {
	if schema.Items != nil {
		return schema.Items.Enum
	}
	return schema.Enum
}

// kept contains the lists that the server treats differently if they are empty instead of absent. An empty managedFields
// is a request to clear the field. Empty policies of an autoscaler are invalid and have no default.
var kept = map[string]bool{
	"autoscaling.v2.HPAScalingRules.policies": true,
	"meta.ObjectMeta.managedFields":           true,
}

// rounded reports whether Kubernetes' defaults round the struct's resource lists up to a milli.
func rounded(of reflect.Type) bool {
	return of.PkgPath() == "k8s.io/api/core/v1" && of.Name() != "NodeAllocatableResourceClaimStatus"
}

// always reports whether Go writes the field even if it is empty.
func always(field member, options []string) bool {
	value := field.Type.Kind() == reflect.Struct
	for _, option := range options {
		if option == "omitzero" || option == "omitempty" && !value {
			return false
		}
	}
	return true
}

// keys returns the keys of a list of type map. A key has its default, unless the default is the empty value.
func keys(of reflect.Type, names []string) []string {
	for of.Kind() != reflect.Struct {
		of = of.Elem()
	}
	var all []string
	for _, name := range names {
		if value := documents[long(of)].Properties[name].Default; value != nil {
			text, err := json.Marshal(value)
			if err != nil {
				log.Fatal(err)
			}
			name += ":" + string(text)
		}
		all = append(all, name)
	}
	return all
}

func spell(of reflect.Type) string {
	if name := special[of]; name != "" {
		return name
	}
	switch of.Kind() {
	case reflect.Pointer:
		return "*" + spell(of.Elem())
	case reflect.Slice:
		return "[" + spell(of.Elem())
	case reflect.Map:
		return "{" + spell(of.Elem())
	case reflect.Struct:
		return short(of)
	case reflect.Interface:
		return "any"
	case reflect.Int:
		return "int64"
	case reflect.Uint32, reflect.Uint16, reflect.Uint8, reflect.Uint64:
		log.Fatalf("%v: no unsigned fields are expected", of)
		return ""
	default:
		return of.Kind().String()
	}
}

// short returns `group.Name`, with the version unless it is v1.
func short(of reflect.Type) string {
	parts := strings.Split(of.PkgPath(), "/")
	group, version := parts[len(parts)-2], parts[len(parts)-1]
	if version == "v1" {
		return group + "." + of.Name()
	}
	return group + "." + version + "." + of.Name()
}

// long returns the schema's name in the OpenAPI documents.
func long(of reflect.Type) string {
	host, path, _ := strings.Cut(of.PkgPath(), "/")
	hosts := strings.Split(host, ".")
	for i, j := 0, len(hosts)-1; i < j; i, j = i+1, j-1 {
		hosts[i], hosts[j] = hosts[j], hosts[i]
	}
	return strings.Join(hosts, ".") + "." + strings.ReplaceAll(path, "/", ".") + "." + of.Name()
}

func sorted[T any](of map[string]T) []string {
	var names []string
	for name := range of {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
