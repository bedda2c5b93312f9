//! The `VolumeAttachment` kind in `storage.k8s.io/v1`.

use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule};
use pintle_json::Json;
use pintle_kinds::Strategy;
use pintle_kinds::check::Check;

use crate::core::pod::volume_plugins::driver_errors;

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
            .child("spec.nodeName", |node| node.whole_is(NameRule::Subdomain))
            .done()
    }
}
