//! Probes that detect when admission objects are active. A real server watches admission objects, so they take effect
//! with a delay.
//!
//! A probe is a temporary webhook or policy that is created after the other objects of its kind. When the probe takes
//! effect, the other objects of its kind are active too.

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::client::Answer;
use crate::responder::Responder;

#[derive(Clone, Copy)]
enum Family {
    ValidatingWebhook,
    MutatingWebhook,
    ValidatingPolicy,
    MutatingPolicy,
}

/// A webhook or policy that only affects the creation of a [`lease`].
pub(crate) struct Probe {
    family: Family,
    /// The name of the probe, which must be unique, because a real server applies a deleted probe for a short time.
    pub(crate) name: String,
}

impl Probe {
    /// Creates a probe for a kind of admission objects. `family` is an item of the field `of` in a step.
    ///
    /// # Errors
    ///
    /// Fails if `family` is not supported.
    pub(crate) fn new(family: &str, name: String) -> anyhow::Result<Self> {
        let family = match family {
            "validating" => Family::ValidatingWebhook,
            "mutating" => Family::MutatingWebhook,
            "vap" => Family::ValidatingPolicy,
            "map" => Family::MutatingPolicy,
            other => anyhow::bail!("READY of {other:?} is not supported"),
        };
        Ok(Self { family, name })
    }

    pub(crate) fn objects(&self) -> Vec<(String, Value)> {
        let name = &self.name;
        let (kind, plural, member, content) = match self.family {
            Family::ValidatingWebhook => {
                ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations", "webhooks", self.webhooks())
            }
            Family::MutatingWebhook => {
                ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations", "webhooks", self.webhooks())
            }
            Family::ValidatingPolicy => {
                ("ValidatingAdmissionPolicy", "validatingadmissionpolicies", "spec", self.validation())
            }
            Family::MutatingPolicy => ("MutatingAdmissionPolicy", "mutatingadmissionpolicies", "spec", self.mutation()),
        };
        let object = |kind: &str, member: &str, content: Value| json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, member: content});
        let path = |plural: &str| format!("/apis/admissionregistration.k8s.io/v1/{plural}");
        let mut objects = vec![(path(plural), object(kind, member, content))];
        let binding = match self.family {
            Family::ValidatingWebhook | Family::MutatingWebhook => return objects,
            Family::ValidatingPolicy => json!({"policyName": name, "validationActions": ["Warn"]}),
            Family::MutatingPolicy => json!({"policyName": name}),
        };
        let bindings = path(&format!("{}bindings", kind.to_lowercase()));
        objects.push((bindings, object(&format!("{kind}Binding"), "spec", binding)));
        objects
    }

    /// Returns `true` if the probe affected the creation of the lease. `answer` is the response to the create request
    /// for the lease.
    ///
    /// # Errors
    ///
    /// Returns an error if the case has no responder, or if the response for a mutating policy is not JSON.
    pub(crate) fn has_effect(&self, answer: &Answer, responder: Option<&Responder>) -> anyhow::Result<bool> {
        Ok(match self.family {
            Family::ValidatingWebhook | Family::MutatingWebhook => {
                responder.context("the case has no webhooks")?.was_probed(&self.path())
            }
            Family::ValidatingPolicy => {
                let mut warnings = answer.headers.get_all("warning").iter();
                warnings.any(|text| String::from_utf8_lossy(text.as_bytes()).contains(&self.name))
            }
            Family::MutatingPolicy => {
                let body: Value =
                    serde_json::from_slice(&answer.body).context("the response to the probe is not JSON")?;
                body["metadata"]["annotations"][&self.name] == "x"
            }
        })
    }

    fn path(&self) -> String {
        format!("/{}", self.name)
    }

    fn webhooks(&self) -> Value {
        json!([{
            "name": self.name,
            "clientConfig": {"url": format!("${{hook}}{}", self.path()), "caBundle": "${ca}"},
            "rules": [lease_creation_rule()],
            "namespaceSelector": own_namespace(),
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "failurePolicy": "Ignore",
            "timeoutSeconds": 2,
        }])
    }

    fn validation(&self) -> Value {
        let expression = "!object.metadata.name.startsWith('probe-')";
        json!({"matchConstraints": match_constraints(), "validations": [{"expression": expression, "message": self.name}]})
    }

    fn mutation(&self) -> Value {
        let expression = format!("Object{{metadata: Object.metadata{{annotations: {{'{}': 'x'}}}}}}", self.name);
        let mutation = json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}});
        json!({"matchConstraints": match_constraints(), "reinvocationPolicy": "Never", "mutations": [mutation]})
    }
}

/// Returns the Lease that `READY` steps create repeatedly in dry-run mode.
pub(crate) fn lease() -> Value {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "probe-${id}"}, "spec": {}})
}

fn lease_creation_rule() -> Value {
    json!({"apiGroups": ["coordination.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["leases"]})
}

fn own_namespace() -> Value {
    json!({"matchLabels": {"kubernetes.io/metadata.name": "${ns}"}})
}

fn match_constraints() -> Value {
    json!({"resourceRules": [lease_creation_rule()], "namespaceSelector": own_namespace()})
}
