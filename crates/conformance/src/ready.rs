//! Probe policies, which show when other policies are active. When a probe policy has an effect, all policies that were created before it
//! are active. A real server learns about policies from a watch, so a policy takes effect with a delay.

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::client::Answer;

/// The kinds of policies for which a `READY` step can wait.
#[derive(Clone, Copy)]
pub(crate) enum Family {
    Validating,
    Mutating,
}

impl Family {
    /// # Errors
    ///
    /// Returns an error if there is no kind with this name.
    pub(crate) fn parse(name: &str) -> anyhow::Result<Self> {
        match name {
            "vap" => Ok(Self::Validating),
            "map" => Ok(Self::Mutating),
            other => anyhow::bail!("READY of {other:?} is not supported"),
        }
    }

    /// Returns a probe policy and its binding, each with the path of its collection.
    pub(crate) fn probe(self) -> [(String, Value); 2] {
        let (resource, kind, spec, binding) = specs(self);
        let object = |kind: String, spec: Value| {
            json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "zz-${id}"}, "spec": spec,
            })
        };
        let path = |ending: &str| format!("/apis/admissionregistration.k8s.io/v1/{resource}{ending}");
        [(path("ies"), object(kind.into(), spec)), (path("ybindings"), object(format!("{kind}Binding"), binding))]
    }

    /// Returns whether a response to the creation of a Lease shows an effect of the policy from [`probe`](Self::probe).
    pub(crate) fn has_effect(self, answer: &Answer) -> anyhow::Result<bool> {
        Ok(match self {
            Self::Validating => {
                let mut warnings = answer.headers.get_all("warning").iter();
                warnings.any(|text| String::from_utf8_lossy(text.as_bytes()).contains(PROBED))
            }
            Self::Mutating => {
                let body: Value =
                    serde_json::from_slice(&answer.body).context("the response to the probe is not JSON")?;
                body["metadata"]["annotations"][PROBED] == "x"
            }
        })
    }
}

/// Returns the Lease that the session repeatedly tries to create. A probe policy adds a warning or an annotation to the response.
pub(crate) fn lease() -> Value {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "probe-${id}"}, "spec": {}})
}

/// The text of the warning that the probe policy adds, and the name of its annotation.
const PROBED: &str = "probed.example.org";

/// Returns four parts of a probe policy: the resource name without its plural ending, the kind, the spec of the policy and the spec of its
/// binding.
fn specs(family: Family) -> (&'static str, &'static str, Value, Value) {
    let constraints = json!({
        "resourceRules": [{
            "apiGroups": ["coordination.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["leases"],
        }],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "${ns}"}},
    });
    match family {
        Family::Validating => (
            "validatingadmissionpolic",
            "ValidatingAdmissionPolicy",
            json!({
                "matchConstraints": constraints,
                "validations": [{"expression": "!object.metadata.name.startsWith('probe-')", "message": PROBED}],
            }),
            json!({"policyName": "zz-${id}", "validationActions": ["Warn"]}),
        ),
        Family::Mutating => {
            let expression = format!("Object{{metadata: Object.metadata{{annotations: {{'{PROBED}': 'x'}}}}}}");
            (
                "mutatingadmissionpolic",
                "MutatingAdmissionPolicy",
                json!({
                    "matchConstraints": constraints,
                    "reinvocationPolicy": "Never",
                    "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}],
                }),
                json!({"policyName": "zz-${id}"}),
            )
        }
    }
}
