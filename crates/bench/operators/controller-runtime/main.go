// The README's operator with controller-runtime, for docs/OPERATORS.md. The definition and the RBAC roles come from controller-gen.
package main

import (
	"context"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

const (
	name      = "website-controller"
	finalizer = "example.com/dns"
)

// Website is a site that the operator publishes.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
type Website struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WebsiteSpec   `json:"spec"`
	Status            WebsiteStatus `json:"status,omitempty"`
}

type WebsiteSpec struct {
	// +kubebuilder:validation:MaxLength=253
	Domain string `json:"domain"`
}

type WebsiteStatus struct {
	URL string `json:"url,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// WebsiteList is a list of websites.
// +kubebuilder:object:root=true
type WebsiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Website `json:"items"`
}

type reconciler struct {
	client.Client
	scheme *runtime.Scheme
}

// +kubebuilder:rbac:groups=example.com,resources=websites,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=example.com,resources=websites/status,verbs=get;update;patch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;create;update;patch

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var site Website
	if err := r.Get(ctx, request.NamespacedName, &site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !site.DeletionTimestamp.IsZero() {
		if controllerutil.RemoveFinalizer(&site, finalizer) {
			fmt.Printf("the DNS record of %s is removed\n", site.Spec.Domain)
			return ctrl.Result{}, r.Update(ctx, &site)
		}
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(&site, finalizer) {
		if err := r.Update(ctx, &site); err != nil {
			return ctrl.Result{}, err
		}
	}
	if site.Spec.Domain == "panic.example.com" {
		panic("for the run with a panic")
	}
	url := "https://" + site.Spec.Domain
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: site.Namespace, Name: site.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, configMap, func() error {
		configMap.Data = map[string]string{"url": url}
		return controllerutil.SetControllerReference(&site, configMap, r.scheme)
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	before := site.DeepCopy()
	site.Status.URL = url
	meta.SetStatusCondition(&site.Status.Conditions, metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "Published", ObservedGeneration: site.Generation,
	})
	return ctrl.Result{}, r.Status().Patch(ctx, &site, client.MergeFrom(before))
}

func run() error {
	group := schema.GroupVersion{Group: "example.com", Version: "v1"}
	kinds := runtime.NewScheme()
	utilruntime.Must(scheme.AddToScheme(kinds))
	kinds.AddKnownTypes(group, &Website{}, &WebsiteList{})
	metav1.AddToGroupVersion(kinds, group)

	ctrl.SetLogger(zap.New())
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme:                        kinds,
		LeaderElection:                true,
		LeaderElectionID:              name,
		LeaderElectionNamespace:       os.Getenv("LEASE_NAMESPACE"),
		LeaderElectionReleaseOnCancel: true,
		HealthProbeBindAddress:        os.Getenv("PROBES"),
		Metrics:                       server.Options{BindAddress: os.Getenv("METRICS")},
	})
	if err != nil {
		return err
	}
	if err := mgr.AddHealthzCheck("healthz", healthz.Ping); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("readyz", healthz.Ping); err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(mgr).
		For(&Website{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&corev1.ConfigMap{}).
		Complete(&reconciler{mgr.GetClient(), mgr.GetScheme()})
	if err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
