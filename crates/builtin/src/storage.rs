//! The kinds in `storage.k8s.io`.

mod csi_driver;
mod csi_node;
mod csi_storage_capacity;
mod storage_class;
mod volume_attachment;
mod volume_attributes_class;

pub(super) use csi_driver::CsiDriver;
pub(super) use csi_node::CsiNode;
pub(super) use csi_storage_capacity::CsiStorageCapacity;
pub(super) use storage_class::StorageClass;
pub(super) use volume_attachment::VolumeAttachment;
pub(super) use volume_attributes_class::VolumeAttributesClass;
