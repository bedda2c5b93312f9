//! The `VolumeAttachment` kind in `storage.k8s.io/v1`.

use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule};
use pintle_json::Json;
use pintle_kinds::Strategy;
use pintle_kinds::check::{Check, immutable};

use crate::core::inline_errors;
use crate::core::pod::volume_plugins::driver_errors;

const MAX_CODE: i64 = i32::MAX as i64;
const CODE_RANGE: &str = "must be between 0 and 2147483647, inclusive";
const INLINE: &str = "spec.source.inlineVolumeSpec";

pub(crate) struct VolumeAttachment;

impl Strategy for VolumeAttachment {
    fn validate_create(&self, object: &Json) -> FieldErrors {
        let attacher = driver_errors(object.text("/spec/attacher"), "spec.attacher");
        let (named, inline) =
            (object.has("/spec/source/persistentVolumeName"), object.has("/spec/source/inlineVolumeSpec"));
        let why = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
        let nameless = named && object.text("/spec/source/persistentVolumeName").is_empty();
        Check::of(object)
            .also(attacher)
            .required_if(!named && !inline, "spec.source", why)
            .forbidden_if(named && inline, "spec.source", why)
            .refuse(nameless && !inline, || {
                FieldError::required("spec.source.persistentVolumeName", "must specify non empty persistentVolumeName")
            })
            .inside("spec.source.persistentVolumeName", |name| name.whole_is(NameRule::Subdomain))
            .also(
                (inline && !named)
                    .then(|| inline_errors(&object["spec"]["source"]["inlineVolumeSpec"], INLINE))
                    .into_iter()
                    .flatten(),
            )
            .child("spec.nodeName", |node| node.whole_is(NameRule::Subdomain))
            .within("status.attachError.errorCode", 0, MAX_CODE, CODE_RANGE)
            .within("status.detachError.errorCode", 0, MAX_CODE, CODE_RANGE)
            .done()
    }

    fn validate_update(&self, new: &Json, old: &Json, subresource: Subresource) -> FieldErrors {
        let fixed =
            if subresource == Subresource::None { immutable(new, old, &["spec"]) } else { FieldErrors::default() };
        self.validate_create(new).and(fixed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_json::json;

    #[test]
    fn inline_volumes_must_be_csi_volumes_without_a_claim() {
        let csi = json!({"driver": "d", "volumeHandle": "h"});
        for (key, value, expected) in [
            ("csi", csi.clone(), &[][..]),
            ("capacity", json!({"storage": "1Gi"}), &["capacity"]),
            ("nodeAffinity", json!({}), &["nodeAffinity"]),
            ("hostPath", json!({"path": "/x"}), &["csi"]),
            ("volumeMode", json!("Block"), &["volumeMode"]),
            ("persistentVolumeReclaimPolicy", json!("Delete"), &["persistentVolumeReclaimPolicy"]),
            ("csi", json!({}), &["csi.driver", "csi.volumeHandle"]),
        ] {
            let mut volume = json!({"accessModes": ["ReadWriteOnce"], "csi": csi});
            volume.set(key, value);
            let spec = json!({"attacher": "a", "nodeName": "n", "source": {"inlineVolumeSpec": volume}});
            let expected: Vec<_> = expected.iter().map(|field| format!("{INLINE}.{field}")).collect();
            assert_eq!(VolumeAttachment.validate_create(&json!({"spec": spec})).fields(), expected, "{key}");
        }
    }
}
