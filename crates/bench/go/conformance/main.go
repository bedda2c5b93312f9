// Command conformance runs a controller's typical scenario with client-go, using
// the kubeconfig in KUBECONFIG. Each step must succeed before the next one starts.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

var ctx = context.Background()

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	must(err)
	config.QPS = -1
	// JSON, and protobuf where the type supports it.
	for _, media := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		day(config, media)
	}
}

func day(config *rest.Config, media string) {
	typed := rest.CopyConfig(config)
	typed.ContentType = media
	client := kubernetes.NewForConfigOrDie(typed)
	made, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "go-"}}, metav1.CreateOptions{})
	must(err)
	namespace := made.Name
	maps := client.CoreV1().ConfigMaps(namespace)

	// Create, read, list by label, page.
	for number := range 5 {
		object := metav1.ObjectMeta{Name: fmt.Sprintf("m%d", number), Labels: map[string]string{"half": fmt.Sprint(number % 2)}}
		_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: object}, metav1.CreateOptions{})
		must(err)
	}
	odd, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "half=1"})
	must(err)
	require(len(odd.Items) == 2 && odd.Items[1].Name == "m3", odd.Items)
	page, err := maps.List(ctx, metav1.ListOptions{Limit: 2})
	must(err)
	rest, err := maps.List(ctx, metav1.ListOptions{Limit: 10, Continue: page.Continue})
	must(err)
	require(len(page.Items) == 2 && len(rest.Items) >= 3, rest.Items)
	_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m0"}}, metav1.CreateOptions{})
	require(apierrors.IsAlreadyExists(err), err)
	fmt.Println("ok  create, read, list, pages by", media)

	informer(client, namespace)
	apply(client, namespace)
	definition(config, namespace)

	replicas := int32(2)
	app := map[string]string{"app": "web"}
	deployment := appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: app}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: app}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
		}},
	}
	_, err = client.AppsV1().Deployments(namespace).Create(ctx, &deployment, metav1.CreateOptions{})
	must(err)
	scale, err := client.AppsV1().Deployments(namespace).GetScale(ctx, "web", metav1.GetOptions{})
	must(err)
	scale.Spec.Replicas = 3
	scale, err = client.AppsV1().Deployments(namespace).UpdateScale(ctx, "web", scale, metav1.UpdateOptions{})
	must(err)
	require(scale.Spec.Replicas == 3, scale)
	must(client.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}))
	until(func() bool {
		_, err := client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	fmt.Println("ok  workloads, deletion of a namespace by", media)
}

// informer receives the existing objects, a change and a deletion.
func informer(client kubernetes.Interface, namespace string) {
	stop := make(chan struct{})
	defer close(stop)
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	maps := factory.Core().V1().ConfigMaps()
	seen := make(chan string, 100)
	name := func(object any) string { return object.(*corev1.ConfigMap).Name }
	_, err := maps.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, object any) { seen <- "update " + name(object) },
		DeleteFunc: func(object any) { seen <- "delete " + name(object) },
	})
	must(err)
	factory.Start(stop)
	factory.WaitForCacheSync(stop)
	known, err := maps.Lister().ConfigMaps(namespace).List(labels.SelectorFromSet(labels.Set{"half": "0"}))
	must(err)
	require(len(known) == 3, known)
	api := client.CoreV1().ConfigMaps(namespace)
	stale, err := api.Get(ctx, "m1", metav1.GetOptions{})
	must(err)
	_, err = api.Patch(ctx, "m1", types.StrategicMergePatchType, []byte(`{"data":{"n":"1"}}`), metav1.PatchOptions{})
	must(err)
	require(next(seen) == "update m1", "another event")
	_, err = api.Update(ctx, stale, metav1.UpdateOptions{})
	require(apierrors.IsConflict(err), err)
	must(api.Delete(ctx, "m2", metav1.DeleteOptions{}))
	require(next(seen) == "delete m2", "another event")
	fmt.Println("ok  informer, patch, conflict, delete")
}

// apply lets two managers set the same field.
func apply(client kubernetes.Interface, namespace string) {
	maps := client.CoreV1().ConfigMaps(namespace)
	wish := func(value string) *corev1apply.ConfigMapApplyConfiguration {
		return corev1apply.ConfigMap("applied", namespace).WithData(map[string]string{"a": value})
	}
	_, err := maps.Apply(ctx, wish("1"), metav1.ApplyOptions{FieldManager: "one"})
	must(err)
	_, err = maps.Apply(ctx, wish("2"), metav1.ApplyOptions{FieldManager: "two"})
	require(apierrors.IsConflict(err), err)
	forced, err := maps.Apply(ctx, wish("2"), metav1.ApplyOptions{FieldManager: "two", Force: true})
	must(err)
	require(forced.Data["a"] == "2", forced)
	fmt.Println("ok  server-side apply")
}

// definition creates a definition, an object of its kind, and an object that its schema rejects.
func definition(config *rest.Config, namespace string) {
	client := dynamic.NewForConfigOrDie(config)
	definitions := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	group := namespace + ".example.com"
	name := "widgets." + group
	object := func(value map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: value}
	}
	size := map[string]any{"type": "integer", "minimum": int64(1)}
	spec := map[string]any{"type": "object", "properties": map[string]any{"size": size}}
	_, err := definitions.Create(ctx, object(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "names": map[string]any{"plural": "widgets", "kind": "Widget"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{"spec": spec}}},
			}},
		},
	}), metav1.CreateOptions{})
	must(err)
	widgets := client.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}).Namespace(namespace)
	widget := func(name string, size int64) *unstructured.Unstructured {
		return object(map[string]any{
			"apiVersion": group + "/v1", "kind": "Widget", "metadata": map[string]any{"name": name}, "spec": map[string]any{"size": size},
		})
	}
	until(func() bool {
		_, err := widgets.Create(ctx, widget("w", 3), metav1.CreateOptions{})
		return err == nil
	})
	_, err = widgets.Create(ctx, widget("small", 0), metav1.CreateOptions{})
	require(apierrors.IsInvalid(err), err)
	must(definitions.Delete(ctx, name, metav1.DeleteOptions{}))
	fmt.Println("ok  definitions and custom resources")
}

func next(seen chan string) string {
	select {
	case event := <-seen:
		return event
	case <-time.After(30 * time.Second):
		return "nothing for 30 s"
	}
}

func until(holds func() bool) {
	must(wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) { return holds(), nil }))
}

func require(holds bool, found any) {
	if !holds {
		log.Fatalf("found %+v", found)
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
